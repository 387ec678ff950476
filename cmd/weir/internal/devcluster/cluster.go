package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/cmd/poll"
)

// pollPeriod is how often files and processes are checked: too short for people to notice,
// and each check is a few system calls.
const pollPeriod = 100 * time.Millisecond

// Cluster is a cluster that this process started.
type Cluster struct {
	// Reach is the connection that Up has opened. Stop closes it.
	Reach    *Reach
	config   Config
	paths    layout
	say      func(string)
	children map[string]*Child
}

// passable is the mode of the folders above the agents' data: jobs may run as other users,
// which must reach their workspaces. Secrets are in closed folders below.
const passable = 0o711

// Start starts every process of a cluster and returns at once; AwaitReady waits until the
// cluster is ready. Start first cleans up after an earlier owner. `say` shows messages to the
// user. If Start fails, it leaves nothing behind.
func Start(config Config, say func(string)) (*Cluster, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	root, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	config.Dir = root
	c := &Cluster{config: config, paths: layout{root}, say: say, children: make(map[string]*Child)}
	if err := os.MkdirAll(root, passable); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	if err := locked(root, c.claim); err != nil {
		// Remove the folder if it did not exist before: Remove fails for a folder that is not
		// empty.
		_ = os.Remove(root)
		return nil, fmt.Errorf("start cluster in %s: %w", config.Dir, err)
	}
	if err := c.startAll(); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

// openFiles chooses the folders for the files of operations if the configuration names none.
func (c *Cluster) openFiles() error {
	switch {
	case len(c.config.DataRoots) > 0:
		return nil
	case os.Geteuid() != 0:
		c.config.DataRoots = []string{"/"}
		return nil
	}
	c.config.DataRoots = []string{c.paths.files()}
	if err := os.Mkdir(c.paths.files(), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The umask may have cleared bits. Jobs, which are users of their own, may add files, and may not
	// remove those of others.
	return os.Chmod(c.paths.files(), 0o777|os.ModeSticky)
}

// claim makes this process the owner of the folder.
func (c *Cluster) claim() error {
	if err := c.takeOver(); err != nil {
		return err
	}
	if err := c.openFiles(); err != nil {
		return err
	}
	if _, err := os.Stat(SettingsFile(c.paths.root)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s already exists and belongs to another cluster: move it away, or choose another folder", SettingsFile(c.paths.root)))
	}
	if err := c.furnish(); err != nil {
		return errors.Join(err, remove(c.paths))
	}
	return nil
}

// takeOver cleans up after an earlier owner that was killed. It returns ErrRunning if a cluster
// still runs.
func (c *Cluster) takeOver() error {
	record, err := Load(c.paths.root)
	switch {
	case errors.Is(err, ErrNone):
		if _, err := os.Stat(c.paths.dev()); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// The owner ended before it had started anything.
		record = &Record{}
	case err != nil:
		return fmt.Errorf("%w: if no process of it is running, remove %s", err, c.paths.dev())
	}
	switch record.condition(Process.Alive) {
	case owned:
		return fmt.Errorf("%w (weir dev up, pid %d): weir dev down stops it", ErrRunning, record.Owner.Pid)
	case detached:
		return fmt.Errorf("%w (detached): weir dev down stops it", ErrRunning)
	}
	c.say(fmt.Sprintf("cleaning up after an earlier weir dev up that was killed (pid %d)", record.Owner.Pid))
	return endAndRemove(c.paths, record, c.config.Ending)
}

// furnish creates the folders, certificates, record and settings that the processes and
// clients need.
func (c *Cluster) furnish() error {
	if err := os.Mkdir(c.paths.dev(), passable); err != nil {
		return err
	}
	self, err := Self()
	if err != nil {
		return err
	}
	ports, err := freeRanges(c.config.Replicas, 1, nil)
	if err != nil {
		return err
	}
	ranges, err := freeRanges(c.config.Agents, jobPorts, ports)
	if err != nil {
		return err
	}
	record := &Record{Owner: self, Program: c.config.Program, Cluster: "dev-" + uuid.NewString()[:8]}
	record.Members = plan(&c.config, ports, ranges)
	for _, m := range record.Members {
		if err := os.Mkdir(filepath.Dir(m.Log), passable); err != nil {
			return err
		}
	}
	if record.Access, err = c.certify(record); err != nil {
		return err
	}
	if err := record.save(c.paths); err != nil {
		return err
	}
	return client.SaveSettings(SettingsFile(c.paths.root), clientSettings(record.Access))
}

// certify issues a certificate to each member and to the user.
func (c *Cluster) certify(record *Record) (Access, error) {
	var access Access
	for _, m := range record.Members {
		if m.Kind == Replica {
			access.Addresses = append(access.Addresses, m.Address)
		}
	}
	if c.config.Insecure {
		return access, nil
	}
	authority, err := identity.CreateAuthority(c.paths.authority(), record.Cluster)
	if err != nil {
		return Access{}, err
	}
	issue := func(folder string, role identity.Role, name string) error {
		return authority.Issue(folder, identity.Identity{Role: role, Name: name}, []string{"localhost", loopback, c.config.host(name)}, 0)
	}
	for _, m := range record.Members {
		role := identity.Replica
		if m.Kind == Agent {
			role = identity.Agent
		}
		if err := issue(c.paths.identity(m.Name), role, m.Name); err != nil {
			return Access{}, err
		}
	}
	access.Credentials = c.paths.operator()
	return access, authority.Issue(access.Credentials, identity.Identity{Role: identity.Operator, Name: "dev"}, []string{"localhost", loopback}, 0)
}

func (c *Cluster) startAll() error {
	record, err := Load(c.paths.root)
	if err != nil {
		return err
	}
	for _, m := range record.Members {
		if err := c.start(m.Name); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// start starts a member's program and records its process.
func (c *Cluster) start(name string) error {
	var failure error
	err := edit(c.paths, func(record *Record) error {
		m, err := record.member(name)
		if err != nil {
			return err
		}
		var started *Child
		started, failure = launch(record.Program, m, !c.config.Detached, c.config.Network)
		m.begun(started, failure)
		if started != nil {
			c.children[name] = started
		}
		return nil
	})
	return errors.Join(failure, err)
}

// begun records the result of the requested start.
func (m *Member) begun(started *Child, failure error) {
	m.Started = m.Asked
	if failure != nil {
		m.Process, m.Failure = Process{}, failure.Error()
		return
	}
	m.Process, m.Failure = started.Process, ""
}

// Run serves the cluster until ctx is done: it starts members on request, and reports those
// that end.
func (c *Cluster) Run(ctx context.Context) error {
	// A member that has ended is reported in the round after, unless it is restarted by then.
	seen, told := make(map[*Child]bool), make(map[*Child]bool)
	for {
		record, err := Load(c.paths.root)
		if err != nil {
			return err
		}
		for _, m := range record.Members {
			if m.Asked == m.Started {
				child := c.children[m.Name]
				if child == nil || !child.Over() || told[child] {
					continue
				}
				if told[child] = seen[child]; told[child] {
					c.say(fmt.Sprintf("%s has ended (%s): %s", m.Name, child.end, c.remedy(m, child.code)))
				}
				seen[child] = true
				continue
			}
			if err := c.start(m.Name); err != nil {
				c.say(fmt.Sprintf("start %s: %v", m.Name, err))
				continue
			}
			c.say(fmt.Sprintf("%s restarted (pid %d)", m.Name, c.children[m.Name].Process.Pid))
		}
		if poll.Pause(ctx, pollPeriod) != nil {
			return nil
		}
	}
}

// remedy says what to do about a member that has ended.
func (c *Cluster) remedy(m Member, code int) string {
	if c.config.Final != nil {
		if what := c.config.Final(m, code); what != "" {
			return what
		}
	}
	return "weir dev start " + m.Name + " restarts it"
}

// Detach gives up the ownership of a cluster that was started Detached.
func (c *Cluster) Detach() error {
	return edit(c.paths, func(record *Record) error {
		record.Detached = true
		return nil
	})
}

// Stop ends every process and removes everything.
func (c *Cluster) Stop() error {
	if c.Reach != nil {
		c.Reach.Close()
	}
	err := vacate(c.paths.root, c.config.Ending)
	// If another process has removed the record, only the children are known.
	for _, child := range c.children {
		err = errors.Join(err, child.Process.kill())
	}
	if err != nil {
		return fmt.Errorf("stop cluster: %w", err)
	}
	return nil
}
