package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedCalls are system calls with which an isolated job could try to escape: they create or
// join namespaces and mounts, load code into the kernel, or reach what no namespace isolates.
// They fail with EPERM.
var refusedCalls = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_CHROOT, unix.SYS_SETNS,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
}

// namespaceFlags are refused in the flags of clone and unshare.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// architectures are the audit constants of the architectures that have a filter.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// foreignCalls is the first system call number of the x32 ABI on amd64; no other architecture has
// numbers that high.
const foreignCalls = 0x40000000

// Offsets in the data that the kernel passes to a filter: call number, architecture, and the
// lower half of the first argument.
const (
	callNumber, callArchitecture, callArgument = 0, 4, 16
)

// filter returns the program that the kernel runs on each system call.
func filter() ([]unix.SockFilter, error) {
	architecture, known := architectures[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("no seccomp filter for %s", runtime.GOARCH)
	}
	const (
		load, equal, atLeast, anyBit, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		allow, kill = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_KILL_PROCESS
	)
	refuse := func(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }
	program := []unix.SockFilter{
		{Code: load, K: callArchitecture},
		{Code: equal, K: architecture, Jt: 1},
		{Code: end, K: kill},
		{Code: load, K: callNumber},
		{Code: atLeast, K: foreignCalls, Jf: 1},
		{Code: end, K: refuse(unix.ENOSYS)},
		// A filter cannot see the flags of clone3. On ENOSYS callers fall back to clone.
		{Code: equal, K: unix.SYS_CLONE3, Jf: 1},
		{Code: end, K: refuse(unix.ENOSYS)},
	}
	for _, number := range refusedCalls {
		program = append(program, unix.SockFilter{Code: equal, K: number, Jf: 1}, unix.SockFilter{Code: end, K: refuse(unix.EPERM)})
	}
	return append(program,
		unix.SockFilter{Code: equal, K: unix.SYS_CLONE, Jt: 2},
		unix.SockFilter{Code: equal, K: unix.SYS_UNSHARE, Jt: 1},
		unix.SockFilter{Code: end, K: allow},
		unix.SockFilter{Code: load, K: callArgument},
		unix.SockFilter{Code: anyBit, K: namespaceFlags, Jf: 1},
		unix.SockFilter{Code: end, K: refuse(unix.EPERM)},
		unix.SockFilter{Code: end, K: allow},
	), nil
}

// refuseCalls makes the kernel run the filter for this thread and all that it starts.
func refuseCalls() error {
	program, err := filter()
	if err != nil {
		return err
	}
	given := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&given))); errno != 0 {
		return fmt.Errorf("install the seccomp filter: %w", errno)
	}
	return nil
}

// dropRights keeps processes that this thread starts from gaining rights. With an empty capability
// bounding set, a user other than root has no capabilities.
func dropRights() error {
	if err := refuseMoreRights(); err != nil {
		return err
	}
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		// The kernel may know fewer capabilities.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	return nil
}

// refuseMoreRights makes programs that this thread starts run without setuid rights and file
// capabilities.
func refuseMoreRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}
