package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedCalls are system calls with which a job that is kept apart could look for a way out:
// those that make or join namespaces and mounts, load code into the kernel, or reach what no
// namespace parts. They fail with EPERM.
var refusedCalls = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_CHROOT, unix.SYS_SETNS,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
}

// namespaceFlags must not be in what clone and unshare are asked for.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// architectures are those for which there is a filter, as the kernel's audit names them.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// foreignCalls is where the numbers of another calling convention begin on amd64; no other
// architecture has so many.
const foreignCalls = 0x40000000

// Offsets in what the kernel shows to a filter: number, architecture, and the lower half of
// the first argument.
const (
	callNumber, callArchitecture, callArgument = 0, 4, 16
)

// filter is the program that the kernel runs at each system call.
func filter() ([]unix.SockFilter, error) {
	architecture, known := architectures[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("no filter of system calls for %s", runtime.GOARCH)
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
		// What clone3 is asked for cannot be seen; who is refused so falls back to clone.
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

// refuseCalls has the kernel run the filter for this thread and all that it starts.
func refuseCalls() error {
	program, err := filter()
	if err != nil {
		return err
	}
	given := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&given))); errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// dropRights leaves to what this thread starts no way to more rights than it has. With
// capabilities gone from the bounding set, a user other than root has none.
func dropRights() error {
	if err := refuseMoreRights(); err != nil {
		return err
	}
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		// A kernel may have fewer.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	return refuseCalls()
}

// refuseMoreRights has programs that this thread starts run without the rights that their
// files would give them.
func refuseMoreRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse more rights: %w", err)
	}
	return nil
}
