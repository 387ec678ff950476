package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"weir/cluster/identity"
)

func newTLSCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tls",
		Short: "Create the certificates of a cluster",
		Long: `Create the certificates of a cluster.

Every process of a cluster has a folder with its certificate, issued by the
cluster's own authority. The certificate says what the process is: a replica, an
agent, a client or an operator. Every port requires one.`,
	}
	return group(cmd, newTLSInitCommand(), newTLSIssueCommand(), newTLSShowCommand())
}

func newTLSInitCommand() *cobra.Command {
	var dir, cluster string
	var replicas, agents, clients, operators, hosts []string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a cluster's authority and the certificates of its first processes",
		Example: `  weir tls init --dir certs --replica r1,r2,r3 --agent n1,n2 --operator admin --client ann
  # certs/authority stays with you; certs/replica-r1 goes to replica r1, and so on`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, err := identity.CreateAuthority(filepath.Join(dir, "authority"), cluster)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "authority of cluster %s in %s: keep its ca.key safe\n", authority.Cluster(), filepath.Join(dir, "authority"))
			for _, list := range []struct {
				role  identity.Role
				names []string
				hosts []string
			}{{identity.Replica, replicas, hosts}, {identity.Agent, agents, nil}, {identity.Client, clients, nil}, {identity.Operator, operators, nil}} {
				for _, name := range list.names {
					if err := issue(cmd, authority, dir, list.role, name, list.hosts, identity.DefaultValidity); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "certs", "folder for the authority and the credentials folders")
	flags.StringVar(&cluster, "cluster-id", "", "id of the cluster (default: random)")
	flags.StringSliceVar(&replicas, "replica", nil, "names of replicas")
	flags.StringSliceVar(&agents, "agent", nil, "names of agents: their nodes' names")
	flags.StringSliceVar(&clients, "client", nil, "names of users")
	flags.StringSliceVar(&operators, "operator", nil, "names of operators: users who may also change pools and move leadership")
	flags.StringSliceVar(&hosts, "hosts", []string{"localhost", "127.0.0.1"}, "DNS names and addresses of replicas, for clients like curl that check them")
	return cmd
}

func newTLSIssueCommand() *cobra.Command {
	var dir, role, name string
	var hosts []string
	var validity time.Duration
	cmd := &cobra.Command{
		Use:     "issue",
		Short:   "Issue one more certificate",
		Example: `  weir tls issue --dir certs --role agent --name n3`,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := require(cmd, "role", "name"); err != nil {
				return err
			}
			parsed, err := identity.ParseRole(role)
			if err != nil {
				return &exitError{exitUsage, fmt.Errorf("--role: %w", err)}
			}
			authority, err := identity.OpenAuthority(filepath.Join(dir, "authority"))
			if err != nil {
				return err
			}
			if parsed != identity.Replica && !cmd.Flags().Changed("hosts") {
				hosts = nil
			}
			if len(hosts) > 0 && (parsed == identity.Client || parsed == identity.Operator) {
				return &exitError{exitUsage, fmt.Errorf("--hosts: a %s does not listen on a port", parsed)}
			}
			return issue(cmd, authority, dir, parsed, name, hosts, validity)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "certs", "folder that weir tls init made")
	flags.StringVar(&role, "role", "", "replica, agent, client or operator")
	flags.StringVar(&name, "name", "", "name of the replica, node or user")
	flags.StringSliceVar(&hosts, "hosts", []string{"localhost", "127.0.0.1"}, "DNS names and addresses of a replica, for clients like curl that check them; an agent that serves metrics needs those of its machine")
	flags.DurationVar(&validity, "validity", identity.DefaultValidity, "how long the certificate is valid")
	return cmd
}

func newTLSShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show FOLDER",
		Short:   "Show the identity and expiry of a credentials folder",
		Example: `  weir tls show certs/agent-n1`,
		Args:    takes("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			credentials, err := identity.LoadCredentials(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, valid until %s\n", credentials.Identity(), credentials.Expires().Format(time.RFC3339))
			return nil
		},
	}
}

// issue writes the credentials folder of one process, dir/role-name.
func issue(cmd *cobra.Command, authority *identity.Authority, dir string, role identity.Role, name string, hosts []string, validity time.Duration) error {
	folder := filepath.Join(dir, fmt.Sprintf("%s-%s", role, name))
	id := identity.Identity{Cluster: authority.Cluster(), Role: role, Name: name}
	if err := authority.Issue(folder, id, hosts, validity); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", role, name, folder)
	return nil
}
