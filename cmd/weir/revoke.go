package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"weir/cluster/identity"
	"weir/messages/apipb"
)

func newTLSRevokeCommand() *cobra.Command {
	f := &clientFlags{format: formatTable}
	var request apipb.RevokeRequest
	var file string
	var list bool
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "Have certificates no longer accepted",
		Long: `Have certificates no longer accepted: one, by its file or its serial number, or all of a
role and name that were issued until now. Connections with them are closed within a
second, at every replica. Issue a new certificate afterwards if the same name is to
come back. --lift has them accepted again. It needs operator credentials.`,
		Example: `  weir tls revoke --role user --name mallory --reason 'laptop stolen'
  weir tls revoke --certificate certs/agent-n3/tls.crt
  weir tls revoke --list
  weir tls revoke --role user --name mallory --lift`,
	}
	checked(cmd, func([]string) error {
		named := 0
		for _, given := range []bool{file != "", request.GetSerial() != "", request.GetRole() != "" || request.GetName() != "", list} {
			if given {
				named++
			}
		}
		switch {
		case named != 1:
			return errors.New("give one of --certificate, --serial, --role with --name, and --list")
		case (request.GetRole() == "") != (request.GetName() == ""):
			return errors.New("give --role together with --name")
		case list && request.GetLift():
			return errors.New("--list: takes no --lift")
		case file == "":
			return nil
		}
		cert, err := identity.ReadCertificate(file)
		if err != nil {
			return err
		}
		request.Serial = identity.Serial(cert)
		return nil
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, _ []string) error {
		if list {
			all, err := s.Revocations(ctx)
			if err != nil {
				return err
			}
			return s.show(view{message: all, rows: true, text: func(now time.Time) string { return revocationsText(all, now) }})
		}
		answer, err := s.Revoke(ctx, &request)
		what := cmp.Or(request.GetSerial(), request.GetRole()+" "+request.GetName())
		if request.GetLift() {
			return s.said(err, answer, "certificates of %s are accepted again", what)
		}
		return s.said(err, answer, "revoked: %s", what)
	})
	flags := cmd.Flags()
	flags.StringVar(&file, "certificate", "", "file of the certificate, such as certs/agent-n3/tls.crt")
	flags.StringVar(&request.Serial, "serial", "", "serial number of the certificate, in hexadecimal digits")
	flags.StringVar(&request.Role, "role", "", "role in the certificates: replica, agent, user, operator or gateway")
	flags.StringVar(&request.Name, "name", "", "name in the certificates")
	flags.StringVar(&request.Reason, "reason", "", "why; it is shown to those who are refused")
	flags.BoolVar(&request.Lift, "lift", false, "accept the certificates again")
	flags.BoolVar(&list, "list", false, "show what is revoked")
	f.register(cmd)
	return cmd
}

func revocationsText(all *apipb.RevocationsResponse, now time.Time) string {
	g := newGrid("certificates", "issued before", "revoked", "by", "reason")
	for _, r := range all.GetRevocations() {
		what := fmt.Sprintf("of %s %s", r.GetRole(), r.GetName())
		if r.GetSerial() != "" {
			what = "serial " + r.GetSerial()
		}
		g.row(what, cmp.Or(moment(r.GetIssuedBefore(), now), none), moment(r.GetTime(), now), r.GetUser(), cmp.Or(r.GetReason(), none))
	}
	return g.String()
}

func newTLSRenewCommand() *cobra.Command {
	f := &clientFlags{format: formatTable}
	var dir string
	var offline bool
	cmd := &cobra.Command{
		Use:   "renew [FOLDER...]",
		Short: "Renew the certificates that expire next",
		Long: `Renew the certificates that have less than a third of their validity left: those in the
named credentials folders, or in all that are beside the authority. Run it daily, by cron.
Names, roles, keys, alternative names and how long a certificate is valid stay, and so do the
owner and the mode of its file. Only tls.crt changes, unless the authority is being replaced
(see weir tls rotate): copy it to the machine of the process, which takes it up by itself. The cluster is asked, with operator credentials, which certificates
are revoked: those are not renewed.`,
		Example: `  weir tls renew --dir certs --credentials certs/operator-admin --addresses host1:7701
  weir tls renew --dir certs certs/agent-n3`,
	}
	renew := func(cmd *cobra.Command, folders []string, revoked []*apipb.Revocation) error {
		authority, err := identity.OpenAuthority(filepath.Join(dir, "authority"))
		if err != nil {
			return err
		}
		if len(folders) == 0 {
			if folders, err = credentialsFolders(dir); err != nil {
				return err
			}
		}
		var failed []error
		for _, folder := range folders {
			said, err := renewFolder(authority, folder, revoked, time.Now())
			if failed = append(failed, err); said != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", folder, said)
			}
		}
		return errors.Join(failed...)
	}
	online := f.verb(func(ctx context.Context, s *session, args []string) error {
		all, err := s.Revocations(ctx)
		if err != nil {
			return fmt.Errorf("which certificates are revoked: %w", err)
		}
		return renew(s.cmd, args, all.GetRevocations())
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if offline {
			return renew(cmd, args, nil)
		}
		return online(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "certs", "folder that weir tls init made")
	flags.BoolVar(&offline, "offline", false, "do not ask the cluster: revoked certificates are renewed too, after which a revocation by name does not hold for them")
	flags.StringSliceVar(&f.settings.Addresses, "addresses", nil, "host:port of replicas (default: as for weir status)")
	flags.StringVar(&f.settings.Credentials, "credentials", "", "credentials folder of an operator (default: as for weir status)")
	flags.DurationVar(&f.timeout, "timeout", 0, "time limit of the question to the cluster")
	cmd.Args = takes(operands(cmd)...)
	return cmd
}

// credentialsFolders returns the folders in dir that have a certificate of a process.
func credentialsFolders(dir string) (folders []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "tls.crt"))
	for _, file := range files {
		folders = append(folders, filepath.Dir(file))
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no credentials folders in it: see weir tls init", dir)
	}
	return folders, err
}

// revokedBy says by whom a certificate was revoked; empty: it is not.
func revokedBy(revoked []*apipb.Revocation, cert *x509.Certificate, who identity.Identity) string {
	for _, r := range revoked {
		byName := r.GetRole() == who.Role.String() && r.GetName() == who.Name && identity.Issued(cert).Before(r.GetIssuedBefore().AsTime())
		if byName || r.GetSerial() == identity.Serial(cert) {
			return fmt.Sprintf("%s %s: revoked by %s: %s", who.Role, who.Name, r.GetUser(), cmp.Or(r.GetReason(), "no reason given"))
		}
	}
	return ""
}

// renewFolder renews a certificate if that is due, and says what it did; nothing if it is not due.
func renewFolder(authority *identity.Authority, folder string, revoked []*apipb.Revocation, now time.Time) (string, error) {
	cert, err := identity.FolderCertificate(folder)
	if err != nil || !identity.RenewalDue(cert, now) {
		return "", err
	}
	who, err := identity.OfCertificate(cert)
	if err != nil {
		return "", fmt.Errorf("%s: %w", folder, err)
	}
	if why := revokedBy(revoked, cert, who); why != "" {
		return "not renewed: " + why, nil
	}
	if err := authority.Renew(folder); err != nil {
		return "", err
	}
	if cert, err = identity.FolderCertificate(folder); err != nil {
		return "", err
	}
	return fmt.Sprintf("renewed: %s %s, valid until %s", who.Role, who.Name, cert.NotAfter.Format(time.RFC3339)), nil
}
