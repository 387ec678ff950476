//go:build !plantedbugs

package raftstore

import "weir/messages/commandpb"

// tooEarly returns results before they are committed in builds with planted bugs, which
// test whether weir chaos notices.
func tooEarly([]*commandpb.Command) []*commandpb.Result { return nil }
