package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// check tries what an isolation needs, in namespaces that are there for it. outside is the
// mount namespace of who asks.
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
	// /tmp is in its own place, and nothing is hidden.
	root := rootfs{spec: &proxyproto.Spec{Hidden: "/tmp"}, folder: "/"}
	if err := root.build(); err != nil {
		return err
	}
	return dropRights()
}
