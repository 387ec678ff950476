package main

import (
	"weir/chaos/fault"
	"weir/cmd/weir/internal/devcluster"
)

func enterNetwork() error { return nil }

func openNetwork(_ *devcluster.Config, screen *screen) (*devcluster.Network, []fault.Kind, error) {
	screen.Say("kills and pauses only")
	return &devcluster.Network{}, []fault.Kind{fault.Kill, fault.Pause}, nil
}
