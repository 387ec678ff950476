package chaosrun

import (
	"fmt"

	"weir/chaos/fault"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

// EnterNetwork moves this process into its own network namespace, by executing its program again.
// Called in that namespace, it returns nil. Called elsewhere, it returns only if it fails.
func EnterNetwork() error { return devcluster.IsolateSelf("WEIR_CHAOS_NETWORK") }

// openNetwork gives each member its own network namespace, if possible, and returns the
// kinds of faults that are possible. `unavailable` is what EnterNetwork returned.
func openNetwork(unavailable error, config *devcluster.Config, display *screen.Screen) (*devcluster.Network, []fault.Kind, error) {
	kinds := []fault.Kind{fault.Kill, fault.Pause}
	if unavailable != nil {
		display.Say(fmt.Sprintf("cut faults disabled, only kills and pauses: %v", unavailable))
		return &devcluster.Network{}, kinds, nil
	}
	network, err := devcluster.OpenNetwork(config.Names())
	if err != nil {
		return nil, nil, err
	}
	config.Network = network
	return network, append(kinds, fault.Cut, fault.Late), nil
}
