package discovery_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"

	"weir/api/discovery"
)

// An instance of a service keeps a list of the others that it may send work to, and
// leaves when it has to.
func Example() {
	client, err := discovery.Open()
	if err != nil {
		log.Fatal(err)
	}
	others := map[string]string{}
	for change := range client.Watch(context.Background()) {
		switch {
		case change.Peers != nil:
			clear(others)
			for _, peer := range change.Peers.Instances {
				if !peer.Self && peer.State == discovery.Live {
					others[peer.Job] = peer.Address(0)
				}
			}
			fmt.Println("others:", slices.Sorted(maps.Values(others)))
		case change.Notice.Leaving:
			fmt.Println("leaving until", change.Notice.Deadline, "for", change.Notice.PreemptedFor)
			// Save what has to be saved, then:
			if err := client.Acknowledge(context.Background()); err != nil {
				log.Print(err)
			}
		}
	}
}
