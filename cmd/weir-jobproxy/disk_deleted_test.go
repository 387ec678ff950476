package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
)

// TestOpenDeleted counts what this process holds open of deleted files.
func TestOpenDeleted(t *testing.T) {
	folder := t.TempDir()
	hold := func(name string, bytes int64) *os.File {
		t.Helper()
		file, err := os.Create(filepath.Join(folder, name))
		must(t, err)
		t.Cleanup(func() { _ = file.Close() })
		_, err = file.Write(make([]byte, bytes))
		must(t, err)
		return file
	}
	big := hold("big", 2<<20)
	twice, err := unix.Dup(int(big.Fd()))
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(twice) })
	hold("kept (deleted)", 4<<20)
	hold("linked", 8<<20)
	must(t, os.Link(filepath.Join(folder, "linked"), filepath.Join(folder, "again")))
	must(t, hold("another's", 16<<20).Close())
	read, err := os.Open(filepath.Join(folder, "another's"))
	must(t, err)
	t.Cleanup(func() { _ = read.Close() })
	for _, name := range []string{"big", "linked", "another's"} {
		must(t, os.Remove(filepath.Join(folder, name)))
	}
	var stat unix.Stat_t
	must(t, unix.Stat(folder, &stat))
	self := func() ([]proctree.Process, error) {
		own, err := proctree.Read(os.Getpid())
		gone := own
		gone.Pid = 1 << 30
		return []proctree.Process{gone, own}, err
	}
	count := func(o *openDeleted, device uint64) diskUse {
		use := diskUse{move: func() {}}
		o.add(&use, folder, map[uint64]bool{device: true})
		return use
	}
	o := &openDeleted{processes: self, most: mostDescriptors}
	// A file system may have set some space aside for what is open.
	if use := count(o, stat.Dev); use.bytes < 2<<20 || use.bytes >= 4<<20 || len(use.biggest) != 1 || use.biggest[0].Path != "big (deleted)" {
		t.Errorf("%d bytes, %+v, want those of big, once", use.bytes, use.biggest)
	}
	if use := count(o, stat.Dev+1); use.bytes != 0 {
		t.Errorf("%d bytes on another device", use.bytes)
	}
}

// TestOpenDeletedIsBounded: a process with very many open files keeps nobody from being seen.
func TestOpenDeletedIsBounded(t *testing.T) {
	var many []proctree.Process
	for i := range 3 {
		many = append(many, proctree.Process{Name: strconv.Itoa(i)})
		many[i].Pid = os.Getpid()
	}
	o := &openDeleted{processes: func() ([]proctree.Process, error) { return many, nil }, most: 1}
	use := diskUse{move: func() {}}
	if n := o.addOf(&use, os.Getpid(), "/", nil, nil, 2); n != 2 {
		t.Errorf("went through %d open files, want 2", n)
	}
	for _, want := range []int{1, 2, 0} {
		if o.add(&use, "/", nil); o.next != want {
			t.Errorf("the next look begins with process %d, want %d", o.next, want)
		}
	}
	o.most = mostDescriptors
	if o.add(&use, "/", nil); o.next != 0 {
		t.Errorf("the next look begins with process %d, and this one has seen all", o.next)
	}
}
