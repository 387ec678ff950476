//go:build !plantedbugs

package api

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// overlook returns why a subject may not propose a command. Builds with planted bugs may overlook it
// on one replica, to test that weir chaos detects it.
func (s *server) overlook(_ *commandpb.Subject, _ proto.Message, missing error) error { return missing }
