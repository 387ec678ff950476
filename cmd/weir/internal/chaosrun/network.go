package chaosrun

import (
	"errors"
	"fmt"

	"weir/chaos/fault"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

// networkVariable is set when this process is in its own network namespace.
const networkVariable = "WEIR_CHAOS_NETWORK"

// Isolated says whether this process is in its own network namespace.
type Isolated struct {
	// why is the reason if it is not; nil if it is.
	why error
}

// EnterNetwork moves this process into its own network namespace, if that is possible.
func EnterNetwork() (Isolated, error) {
	err := devcluster.IsolateSelf(networkVariable)
	if err != nil && !errors.Is(err, devcluster.ErrNoNetwork) {
		return Isolated{}, err
	}
	return Isolated{why: err}, nil
}

// openNetwork gives each member its own network namespace, if possible, and returns the
// kinds of faults that are possible.
func openNetwork(alone Isolated, config *devcluster.Config, display *screen.Screen) (*devcluster.Network, []fault.Kind, error) {
	kinds := []fault.Kind{fault.Kill, fault.Pause}
	if alone.why != nil {
		display.Say(fmt.Sprintf("cut faults disabled, only kills and pauses: %v", alone.why))
		return &devcluster.Network{}, kinds, nil
	}
	network, err := devcluster.OpenNetwork(config.Names())
	if err != nil {
		return nil, nil, err
	}
	config.Network = network
	return network, append(kinds, fault.Cut, fault.Late), nil
}
