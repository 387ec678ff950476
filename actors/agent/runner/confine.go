package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		return "jobs with isolation strict are rejected, and other jobs see the processes of the node (" + c.noStrict + ")"
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
func (r *Runner) confine(spec *proxyproto.Spec, job *JobSpec, user *proxyproto.User) error {
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
	if spec.Isolation == proxyproto.IsolationNone && os.Geteuid() == 0 && !r.config.Users.Root {
		return errors.New("isolation none: lets a job run setuid programs: jobs on this node may not run so: its agent has no --allow-root-jobs")
	}
	spec.User = user
	spec.Separate = spec.Isolation == proxyproto.IsolationDefault && user != nil && user.UID != 0 && r.confinement.noStrict == ""
	switch {
	case spec.Separated() && user != nil:
		var err error
		if spec.Hidden, err = hiddenFolder(cmp.Or(r.config.Hidden, r.config.Root), user); err != nil {
			return err
		}
		spec.Visible = []string{spec.Workspace, filepath.Dir(r.paths.discovery(job.ID))}
	case user != nil:
		if err := checkReach(r.config.Root, user); err != nil {
			return fmt.Errorf("user %d: %w", user.UID, err)
		}
	}
	return nil
}

func (r *Runner) claims() claims { return claims{r.config.Claims, r.config.Users.Own} }

// userOf returns the user that a job is to run as, and what keeps other jobs from getting that user
// if it is the job's own.
func (r *Runner) userOf(job *JobSpec) (user *proxyproto.User, claim *os.File, err error) {
	user, err = r.config.Users.Find(job.User, job.Group)
	if err != nil || user == nil || !user.Own {
		return user, nil, err
	}
	if user.UID, claim, err = r.claims().take(r.hasUser); err != nil {
		return nil, nil, err
	}
	if job.Group == "" {
		user.GID = user.UID
	}
	return user, claim, nil
}

// hasUser reports whether a job that has not been released has a user.
func (r *Runner) hasUser(uid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range r.jobs {
		if job.user != nil && job.user.UID == uid {
			return true
		}
	}
	return false
}

// drop lets other jobs have a user.
func drop(claim *os.File) error {
	if claim == nil {
		return nil
	}
	if err := claim.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
