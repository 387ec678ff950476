package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/messages/apipb"
)

func newTLSRotateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "rotate",
		Short: "Replace the authority and the gossip key, without a stop",
		Long: `Replace the cluster's authority and the key of gossip, without a stop, in three steps:

start   makes the next ones beside the present ones; all folders trust both
switch  gives certificates of the next authority; the next gossip key encrypts
finish  gives up the old ones and deletes the old authority's key

Each step changes files in the credentials folders, which it names. Copy them to the
machines of their processes; these take them up within a minute, or at once on SIGHUP.
The next step refuses to begin before all have. A step can be repeated, also after it
was interrupted.`,
	}, newRotateStartCommand(),
		newRotateStepCommand("switch", "Issue certificates by the next authority", identity.Started),
		newRotateStepCommand("finish", "Give up the old authority and the old gossip key", identity.Switched))
}

func newRotateStartCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "start [FOLDER...]",
		Short: "Make the next authority and gossip key",
		Long: `Make the next authority and gossip key beside the present ones, and have the named
credentials folders, or all beside the authority, trust both. No certificate changes.

Users and gateways need their new ca.crt before the switch too, and the cluster cannot
tell who has it.`,
		Example: `  weir tls rotate start --dir certs`,
	}
	cmd.RunE = func(cmd *cobra.Command, folders []string) error {
		folders, err := foldersOf(dir, folders)
		if err != nil {
			return err
		}
		authority, err := identity.StartRotation(filepath.Join(dir, "authority"))
		if err == nil {
			err = updateFolders(cmd.OutOrStdout(), authority, folders, nil)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "started: copy these files to the machines of the processes; when all have taken them up: weir tls rotate switch")
		return nil
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "folder that weir tls init made")
	cmd.Args = takes(operands(cmd)...)
	return cmd
}

// newRotateStepCommand returns the verb of the step that leads on from the phase `from`.
func newRotateStepCommand(name, short string, from identity.Phase) *cobra.Command {
	f := &clientFlags{format: formatTable}
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use:   name + " [FOLDER...]",
		Short: short,
		Long: short + `, in the named credentials folders or in all beside the authority.

The cluster is asked, with operator credentials, what its replicas and agents hold. The step
is refused, and they are named, if it would cut some of them off. It is also asked which
certificates are revoked: their folders stay as they are. --force goes on all the same.`,
		Example: "  weir tls rotate " + name + " --dir certs --credentials certs/operator-admin --addresses host1:7701",
	}
	cmd.RunE = func(cmd *cobra.Command, folders []string) error {
		folders, err := foldersOf(dir, folders)
		if err != nil {
			return err
		}
		step := rotateStep{out: cmd.OutOrStdout(), dir: filepath.Join(dir, "authority"), folders: folders}
		authority, err := identity.OpenAuthority(step.dir)
		if err != nil {
			return err
		}
		// A step out of turn is refused below, and one that is repeated has no one to wait for.
		if authority.Phase() == from {
			asks := f.verb(func(ctx context.Context, s *session, _ []string) (err error) {
				step.revoked, err = askCluster(ctx, s, authority)
				return err
			})
			err := asks(cmd, nil)
			switch {
			case err != nil && force:
				fmt.Fprintf(step.out, "going on all the same, as --force says: %v\n", err)
			case err != nil:
				return &exitError{codeOf(err), fmt.Errorf("rotate %s: %w; --force goes on all the same", name, err)}
			}
		}
		return step.take(from)
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "certs", "folder that weir tls init made")
	flags.BoolVar(&force, "force", false, "go on even if the cluster does not answer, or some of its processes would be cut off; what is revoked and not known is replaced too")
	flags.StringSliceVar(&f.settings.Addresses, "addresses", nil, "host:port of replicas (default: as for weir status)")
	flags.StringVar(&f.settings.Credentials, "credentials", "", "credentials folder of an operator (default: as for weir status)")
	flags.DurationVar(&f.timeout, "timeout", 0, "time limit of the questions to the cluster")
	must(cobra.MarkFlagDirname(flags, "credentials"))
	cmd.Args = takes(operands(cmd)...)
	return cmd
}

// rotateStep is a step of a rotation that may begin.
type rotateStep struct {
	out     io.Writer
	dir     string
	folders []string
	revoked []*apipb.Revocation
}

func (r rotateStep) take(from identity.Phase) error {
	update := func(a *identity.Authority) error { return updateFolders(r.out, a, r.folders, r.revoked) }
	if from == identity.Started {
		authority, err := identity.SwitchRotation(r.dir)
		if err == nil {
			err = update(authority)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(r.out, "switched: copy these files to the machines of the processes; when all have taken them up: weir tls rotate finish")
		return nil
	}
	if err := identity.FinishRotation(r.dir, update); err != nil {
		return err
	}
	fmt.Fprintln(r.out, "finished: copy these files to the machines of the processes; the old authority's key is deleted")
	return nil
}

// foldersOf returns the named credentials folders, or all in dir if none is named.
func foldersOf(dir string, named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	return credentialsFolders(dir)
}

// updateFolders brings credentials folders to what the authority hands out, and says what changed.
func updateFolders(out io.Writer, authority *identity.Authority, folders []string, revoked []*apipb.Revocation) error {
	var failed []error
	for _, folder := range folders {
		said, err := updateFolder(authority, folder, revoked)
		if failed = append(failed, err); err == nil {
			fmt.Fprintf(out, "%s: %s\n", folder, said)
		}
	}
	return errors.Join(failed...)
}

func updateFolder(authority *identity.Authority, folder string, revoked []*apipb.Revocation) (string, error) {
	if cert, err := identity.FolderCertificate(folder); err == nil { // If not, Update says why.
		if who, err := identity.OfCertificate(cert); err == nil {
			if why := revokedBy(revoked, cert, who); why != "" {
				return "left as it is: " + why, nil
			}
		}
	}
	changed, err := authority.Update(folder)
	if len(changed) == 0 {
		return "up to date", err
	}
	return "new " + strings.Join(changed, ", "), err
}

// askCluster returns the revoked certificates, and an error that names the processes that the next step of the
// rotation would cut off.
func askCluster(ctx context.Context, s *session, authority *identity.Authority) ([]*apipb.Revocation, error) {
	all, err := s.Revocations(ctx)
	if err != nil {
		return nil, fmt.Errorf("which certificates are revoked: %w", err)
	}
	answers := s.StatusAll(ctx)
	best, err := bestStatus(answers)
	if err != nil {
		return nil, err
	}
	// Some replicas may not be among the addresses.
	var others []string
	for _, m := range best.GetMembers() {
		if !slices.ContainsFunc(answers, func(a client.ReplicaStatus) bool { return a.Err == nil && a.Status.GetReplica() == m.GetId() }) {
			others = append(others, m.GetAddress())
		}
	}
	answers = append(answers, s.StatusAt(ctx, others...)...)
	if best, err = bestStatus(answers); err != nil {
		return nil, err
	}
	if best.GetClusterId() != authority.Cluster() {
		return nil, &exitError{exitUsage, fmt.Errorf("the cluster that answers is %q, the authority is of %q: see --addresses and --dir", best.GetClusterId(), authority.Cluster())}
	}
	if waits := heldUp(authority, withOthers(best, answers)); len(waits) > 0 {
		return all.GetRevocations(), fmt.Errorf("it would cut processes off:\n  %s\nif their files have been copied, wait until they have been taken up (a minute, or SIGHUP), and try again", strings.Join(waits, "\n  "))
	}
	return all.GetRevocations(), nil
}

// heldUp names the processes that the next step of the rotation would cut off, or of which that is not known.
func heldUp(authority *identity.Authority, st *apipb.StatusResponse) (waits []string) {
	told := map[string]bool{}
	for _, c := range st.GetCredentials() {
		role, err := identity.ParseRole(c.GetRole())
		what := c.GetRole() + " " + c.GetName()
		told[what] = true
		switch {
		case err != nil:
			waits = append(waits, fmt.Sprintf("%s: %v", what, err))
		case c.GetIssuer() == "":
			waits = append(waits, what+" has not told what it holds: start it, upgrade it, or remove its node (weir node remove)")
		default:
			if why := authority.Awaits(role, identity.Standing{Issuer: c.GetIssuer(), Roots: c.GetRoots(), GossipKeys: c.GetGossipKeys()}); why != "" {
				waits = append(waits, what+" "+why)
			}
		}
	}
	for _, m := range st.GetMembers() {
		if m.GetSuffrage() != "" && !told["replica "+m.GetId()] {
			waits = append(waits, fmt.Sprintf("replica %s at %s has not told what it holds: is it running, and of this version?", m.GetId(), m.GetAddress()))
		}
	}
	if !told["replica "+st.GetLeader()] {
		waits = append(waits, "the leader, which knows what agents hold, has not answered")
	}
	return waits
}

// withCredentials adds what another replica tells to what is known.
func withCredentials(known, more []*apipb.HeldCredentials) []*apipb.HeldCredentials {
	for _, c := range more {
		if !slices.ContainsFunc(known, func(k *apipb.HeldCredentials) bool { return k.GetRole() == c.GetRole() && k.GetName() == c.GetName() }) {
			known = append(known, c)
		}
	}
	return known
}

// rotationProblem says that a rotation is under way, and which processes hold it up; empty: none is.
func rotationProblem(all []*apipb.HeldCredentials) string {
	var next string // The authority that was made last.
	var longest int
	var without, unissued, finished, behind []string
	for _, c := range all {
		if roots := c.GetRoots(); len(roots) > max(1, longest) {
			next, longest = roots[len(roots)-1], len(roots)
		}
	}
	if next == "" {
		return ""
	}
	for _, c := range all {
		what := c.GetRole() + " " + c.GetName()
		switch {
		case c.GetIssuer() == "": // Offline nodes are a problem of their own.
		case !slices.Contains(c.GetRoots(), next):
			without = append(without, what)
		case c.GetIssuer() != next:
			unissued = append(unissued, what)
		case len(c.GetRoots()) > 1 || len(c.GetGossipKeys()) > 1:
			behind = append(behind, what)
		default:
			finished = append(finished, what)
		}
	}
	begun := "the authority is being replaced by " + next + " (weir tls rotate): "
	switch {
	case len(without) > 0:
		return begun + some(without) + " not trusting it yet: copy ca.crt there before the switch"
	case len(unissued) > 0 && len(behind)+len(finished) > 0:
		return begun + some(unissued) + " still with a certificate of the old one: copy tls.crt there before the finish"
	case len(unissued) > 0:
		return begun + "all processes trust both: weir tls rotate switch is next"
	case len(finished) > 0:
		return begun + some(behind) + " still trusting the old one: copy ca.crt there"
	}
	return begun + "all processes have certificates of it: weir tls rotate finish is next"
}

// some lists the first few names, and how many more there are.
func some(names []string) string {
	const few = 5
	if more := len(names) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), more)
	}
	return strings.Join(names, ", ")
}

func newTLSShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show FOLDER",
		Short:   "Show the identity and expiry of a credentials folder, and whom it trusts",
		Example: `  weir tls show certs/agent-n1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, holds, err := identity.Inspect(args[0])
			if err != nil {
				return err
			}
			cert, err := identity.FolderCertificate(args[0])
			if err != nil {
				return err
			}
			out, now, until := cmd.OutOrStdout(), time.Now(), holds.Expires.Format(time.RFC3339)
			switch {
			case now.After(holds.Expires):
				fmt.Fprintf(out, "%s, expired on %s: see weir tls renew\n", id, until)
			default:
				fmt.Fprintf(out, "%s, valid until %s%s\n", id, until, when(identity.RenewalDue(cert, now), ": less than a third is left: see weir tls renew"))
			}
			issuer := "authority " + holds.Issuer
			if holds.Issuer == "" {
				issuer = "an authority that the folder does not trust: issue it again"
			}
			fmt.Fprintf(out, "issued by %s\ntrusts %s\n", issuer, strings.Join(holds.Roots, ", "))
			if len(holds.GossipKeys) > 0 {
				fmt.Fprintf(out, "gossip keys %s\n", strings.Join(holds.GossipKeys, ", "))
			}
			return nil
		},
	}
}
