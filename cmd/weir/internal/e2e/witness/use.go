package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"weir/actors/agent/runner/proctree"
)

// use holds memory for a while: a share of limit, in bytes, that varies by up to a tenth of itself
// from cookie to cookie. If `every` is not 0, the cookies with remainder every/4 modulo every hold
// nine tenths of the limit instead. The first attempt of such a cookie does not exit by itself:
// enough jobs come after it to fill its node.
//
//	use folder limit share time every
func use(args []string) error {
	var limit, share float64
	var every, cookie int
	if _, err := fmt.Sscan(args[1]+" "+args[2]+" "+args[4]+" "+os.Getenv("WEIR_JOB_COOKIE"), &limit, &share, &every, &cookie); err != nil {
		return err
	}
	length, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	// The factor is between 0.9 and 1.1, and scattered among cookies.
	share *= 0.9 + 0.2*float64(uint32(cookie)*2654435761>>16&0xff)/0xff
	if every > 0 && cookie%every == every/4 {
		share = 0.9
		first, err := begin(filepath.Join(args[0], strconv.Itoa(cookie)))
		if err != nil {
			return err
		}
		if first {
			length = patience
		}
	}
	held, err := fill(int64(share * limit))
	if err != nil {
		return err
	}
	time.Sleep(length)
	return syscall.Munmap(held)
}

// begin reports whether this is the first call with this file.
func begin(file string) (first bool, err error) {
	mark, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, mark.Close()
}

// fill makes this process hold this many bytes in total.
func fill(bytes int64) ([]byte, error) {
	debug.SetGCPercent(-1)
	resident, err := resident()
	if err != nil {
		return nil, err
	}
	held, err := syscall.Mmap(-1, 0, int(max(bytes-resident, 1)), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	return held, err
}

// resident returns the resident anonymous memory of this process, in bytes.
func resident() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	sizes, err := proctree.Sizes(status)
	if err == nil && sizes["RssAnon"] == 0 {
		err = errors.New("/proc/self/status has no RssAnon")
	}
	return sizes["RssAnon"], err
}
