package runner

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// strictFlags are the namespaces of a strictly isolated job.
	strictFlags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	// checkTimeout limits each check of what the machine permits. A check that takes longer
	// counts as a refusal until the agent restarts.
	checkTimeout = 2 * time.Minute
)

// confinement says which isolation this process can give to jobs.
type confinement struct {
	// mounts names the agent's mount namespace; empty: jobs cannot have one of their own.
	mounts string
	// noMounts is why jobs cannot have a mount namespace; empty if they can. noStrict is why jobs
	// cannot have the isolation "strict"; empty if they can.
	noMounts, noStrict string
}

// findConfinement tries each isolation that jobs may ask for.
func findConfinement(proxyPath string) confinement {
	name, err := os.Readlink("/proc/self/ns/mnt")
	why := ""
	switch {
	case os.Geteuid() != 0:
		why = "agent is not root"
	case err != nil:
		why = err.Error()
	default:
		why = try(proxyPath, proxyproto.IsolationDefault, name, unix.CLONE_NEWNS)
	}
	if why != "" {
		return confinement{noMounts: why, noStrict: why}
	}
	return confinement{mounts: name, noStrict: try(proxyPath, proxyproto.IsolationStrict, name, strictFlags)}
}

// try makes the proxy test an isolation. It returns why this machine cannot provide that isolation;
// empty if it can.
func try(proxyPath, isolation, mounts string, namespaces uintptr) (why string) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, proxyPath, proxyproto.CheckArgument, isolation, mounts)
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: namespaces}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("refused by the system: %v %s", err, strings.TrimSpace(string(text)))
	}
	return ""
}

// shortfall describes the isolation that this machine cannot provide; empty: none is missing.
func (c confinement) shortfall() string {
	switch {
	case c.noMounts != "":
		return "jobs cannot have their own mounts (" + c.noMounts + "): jobs with tmpfs, isolation strict or another user are rejected"
	case c.noStrict != "":
		return "jobs with isolation strict are rejected (" + c.noStrict + ")"
	}
	return ""
}

// Shortfall describes the limits and isolation that this machine cannot provide; empty: none
// is missing.
func (r *Runner) Shortfall() string {
	parts := []string{r.config.Cgroups.Shortfall(), r.confinement.shortfall()}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// confine sets the isolation of a job in spec. It fails if the node cannot provide it.
func (r *Runner) confine(spec *proxyproto.Spec, job *JobSpec) error {
	spec.Isolation, spec.Tmpfs = job.Isolation, job.Tmpfs
	spec.AgentMounts = r.confinement.mounts
	if spec.Isolation == "" {
		spec.Isolation = proxyproto.IsolationDefault
	}
	strict := spec.Isolation == proxyproto.IsolationStrict
	switch {
	case strict && r.confinement.noStrict != "":
		return fmt.Errorf("isolation strict: not supported on this node: %s", r.confinement.noStrict)
	case len(job.Tmpfs) > 0 && r.confinement.noMounts != "":
		return fmt.Errorf("tmpfs: not supported on this node: %s", r.confinement.noMounts)
	}
	if spec.Isolation == proxyproto.IsolationNone && len(job.Tmpfs) == 0 {
		spec.AgentMounts = ""
	}
	var err error
	if spec.User, err = FindUser(job.User, job.Group); err != nil {
		return err
	}
	switch {
	case strict && spec.User == nil:
		spec.User = r.ownUser(job.ID)
	case spec.User != nil && !strict:
		if err := checkReach(r.config.Root, spec.User); err != nil {
			return fmt.Errorf("user %q: %w", job.User, err)
		}
	}
	if strict {
		if spec.Hidden, err = hiddenFolder(r.config.Root, spec.User); err != nil {
			return err
		}
		spec.Visible = []string{spec.Workspace, filepath.Dir(r.paths.discovery(job.ID))}
	}
	return nil
}

// ownUser returns a user without a name. Its id is a hash of the job's id, so that two jobs of this
// machine hardly ever share a user.
func (r *Runner) ownUser(id string) *proxyproto.User {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(r.config.Root + "\x00" + id)) // it never fails
	number := proxyproto.FirstOwnUser + sum.Sum32()%proxyproto.OwnUsers
	return &proxyproto.User{UID: number, GID: number}
}
