package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
