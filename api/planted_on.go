//go:build plantedbugs

package api

import (
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// careless is the replica with the bug.
const careless = "r1"

// staleFor is how long that replica remembers that somebody had a right.
const staleFor = 5 * time.Second

var (
	bug = os.Getenv("WEIR_PLANTED_BUG")
	// allowed says when a subject last had the right to a kind of command.
	allowed sync.Map
)

// overlook lets everybody propose everything at the careless replica, or what they could some seconds
// ago.
func (s *server) overlook(by *commandpb.Subject, command proto.Message, missing error) error {
	if s.cfg.Replica != careless {
		return missing
	}
	if bug == "open_door" {
		return nil
	}
	key := fmt.Sprintf("%s %T", by.GetUser(), command)
	if missing == nil {
		allowed.Store(key, time.Now())
		return nil
	}
	if last, known := allowed.Load(key); bug == "stale_rights" && known && time.Since(last.(time.Time)) < staleFor {
		return nil
	}
	return missing
}
