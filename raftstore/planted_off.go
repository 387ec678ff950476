//go:build !plantedbugs

package raftstore

import "weir/messages/commandpb"

// tooEarly does nothing here. In builds with planted bugs it returns results before they are
// committed, to test that weir chaos detects it.
func tooEarly([]*commandpb.Command) []*commandpb.Result { return nil }
