package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// check tries out the features that an isolation mode needs. It runs in namespaces that were made
// for this check. `outside` is the mount namespace of the agent that runs the check.
func check(isolation, outside string) error {
	if err := ownMounts(&proxyproto.Spec{AgentMounts: outside}); err != nil {
		return err
	}
	if isolation != proxyproto.IsolationStrict {
		if err := unix.Mount("weir", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k"); err != nil {
			return fmt.Errorf("mount tmpfs: %w", err)
		}
		return nil
	}
	if _, err := ownProcesses(); err != nil {
		return err
	}
	// /tmp serves as the job's own temporary folder, and nothing has to be hidden.
	var err error
	onOwnThread(func() { err = separate(&proxyproto.Spec{Hidden: "/tmp", Isolation: isolation}, "/") })
	return err
}
