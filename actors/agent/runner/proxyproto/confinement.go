package proxyproto

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// How far a job is isolated from its node.
const (
	// IsolationNone: the job's processes are tracked and limited together, but are otherwise like
	// any other of the node.
	IsolationNone = "none"
	// IsolationDefault: the job cannot gain privileges, and mounts that the job is permitted to
	// make are visible only to the job itself. A job that is Separate also has process ids, which it
	// shares with its proxy alone, IPC and a /proc of its own, has no capabilities, and does not see
	// the agent's folder.
	IsolationDefault = "default"
	// IsolationStrict: the job is separate, and also has a host name and shared memory of its own,
	// and can write only to its workspace and its own /tmp.
	IsolationStrict = "strict"
)

// Isolations are the names of the isolations, weakest first.
var Isolations = []string{IsolationNone, IsolationDefault, IsolationStrict}

// How the kernel enforces a cpu limit.
const (
	// EnforceQuota: the job never gets more than its limit.
	EnforceQuota = "quota"
	// EnforceWeight: the job gets more than its limit while processors are idle.
	EnforceWeight = "weight"
)

// Tmpfs is a file system in memory, mounted while the job lives.
type Tmpfs struct {
	// Path is within the workspace.
	Path string `json:"path"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

// User is the user that a job's processes run as.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Own: the user is one job's own, and so means nothing once the job is gone.
	Own bool `json:"own,omitempty"`
}

// Separated reports whether the job has namespaces of its own. Its proxy is then the first process of
// one of process ids.
func (s *Spec) Separated() bool { return s.Separate || s.Isolation == IsolationStrict }

// ownFolder is the folder in the workspace that is reserved for Weir.
const ownFolder = ".weir"

// validateConfinement checks the fields that isolate the job from its node.
func (s *Spec) validateConfinement() error {
	switch {
	case s.Isolation != "" && !slices.Contains(Isolations, s.Isolation):
		return fmt.Errorf("isolation: %.40q, must be one of %s", s.Isolation, strings.Join(Isolations, ", "))
	case s.Isolation == IsolationStrict && (s.User == nil || s.User.UID == 0):
		return errors.New("user: isolation strict needs a user other than root")
	case s.Separate && (s.Isolation != IsolationDefault || s.User == nil || s.User.UID == 0):
		return errors.New("separate: needs isolation default, and a user other than root")
	case s.AgentMounts == "" && (s.Separated() || len(s.Tmpfs) > 0):
		return errors.New("agent_mounts: is empty, but separate, isolation strict and tmpfs need private mounts")
	case s.CPUEnforcement != "" && s.CPUEnforcement != EnforceQuota && s.CPUEnforcement != EnforceWeight:
		return fmt.Errorf("cpu_enforcement: %.40q, must be %s or %s", s.CPUEnforcement, EnforceQuota, EnforceWeight)
	}
	var sum int64
	for i, volume := range s.Tmpfs {
		if err := checkVolume(volume, s.Tmpfs[:i]); err != nil {
			return fmt.Errorf("tmpfs %.60q: %w", volume.Path, err)
		}
		sum += volume.Size
	}
	if s.MemoryLimit > 0 && sum > s.MemoryLimit {
		return fmt.Errorf("tmpfs: %d bytes in all, more than memory_limit %d, which includes them", sum, s.MemoryLimit)
	}
	return nil
}

// maxTmpfs limits the size of one tmpfs, in bytes, so that their sum does not overflow.
const maxTmpfs = 1 << 50

func checkVolume(volume Tmpfs, others []Tmpfs) error {
	path := filepath.Clean(volume.Path)
	first, _, _ := strings.Cut(path, "/")
	if err := Between("size", volume.Size, 1, maxTmpfs); err != nil {
		return err
	}
	switch {
	case volume.Path == "" || path == "." || !filepath.IsLocal(path):
		return errors.New("path: must be a folder in the workspace")
	case first == ownFolder:
		return fmt.Errorf("path: %s is reserved for Weir", ownFolder)
	}
	for _, other := range others {
		a, b := path+"/", filepath.Clean(other.Path)+"/"
		if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
			return fmt.Errorf("path: overlaps the path of %.60q", other.Path)
		}
	}
	return nil
}
