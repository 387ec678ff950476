package actors

import (
	"context"
	"encoding/binary"
	"time"

	"weir/cluster/clock"
	"weir/cluster/gossip"
	"weir/raftstore"
)

// clockTopic is the topic on which replicas tell each other their times.
const clockTopic = "clock"

// compareClocks tells the other replicas the time and compares it with theirs, until the replica
// closes. A leader whose machine has the wrong time lets another replica lead.
func (r *Replica) compareClocks() {
	r.cfg.Gossip.Handle(clockTopic, gossip.Handler{Receive: func(said []byte) {
		if replica, at, well, ok := decodeTime(said); ok {
			r.cfg.Clock.Hear(replica, at, well)
		}
	}})
	var handover clock.Handover
	for {
		if err := r.cfg.Gossip.Broadcast(clockTopic, "", encodeTime(r.cfg.ID, r.cfg.Clock)); err != nil {
			r.cfg.Logger.Debug("time not told", "error", err)
		}
		if others, known := r.otherVoters(); known {
			before := r.cfg.Clock.Report()
			report := r.cfg.Clock.Look(others)
			r.tellClock(before, report)
			current, _ := r.store.Leadership()
			if to := handover.Next(clock.Boot(), current.Leader, report); to != "" {
				r.handOver(to)
			}
		}
		pause := clock.Period
		select {
		case <-r.cfg.Clock.Compared():
		default:
			// A doubt is resolved soon.
			pause /= 10
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// otherVoters returns the voters but for this replica, and whether any voters are known.
func (r *Replica) otherVoters() (others []string, known bool) {
	members, err := r.store.Members()
	if err != nil {
		r.cfg.Logger.Debug("clock not compared", "error", err)
		return nil, false
	}
	for _, m := range members {
		if m.Suffrage != raftstore.Voter {
			continue
		}
		known = true
		if m.ID != r.cfg.ID {
			others = append(others, m.ID)
		}
	}
	return others, known
}

// tellClock logs what has changed between two reports. How far a clock is off changes all the time.
func (r *Replica) tellClock(before, now clock.Report) {
	was, is := before.Trouble(r.cfg.ID), now.Trouble(r.cfg.ID)
	changed := (before.Off == 0) != (now.Off == 0) || (before.Verdict == clock.Split) != (now.Verdict == clock.Split)
	switch {
	case is != "" && (changed || now.By != 0):
		r.cfg.Logger.Warn("clock wrong", "replica", r.cfg.ID, "reason", is)
	case was != "" && is == "":
		r.cfg.Logger.Info("clock right again", "replica", r.cfg.ID)
	case now.By != 0:
		r.cfg.Logger.Info("time corrected to that of the other replicas", "replica", r.cfg.ID)
	}
}

// handOver transfers leadership to another replica, because of the clock.
func (r *Replica) handOver(to string) {
	r.cfg.Logger.Warn("clock wrong: transferring leadership", "to", to)
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timing.Patience)
	defer cancel()
	if err := r.store.Transfer(ctx, to); err != nil {
		r.cfg.Logger.Warn("leadership not transferred", "to", to, "error", err)
	}
}

// encodeTime returns what a replica tells of its time: nanoseconds since 1970, whether its machine's
// clock is right, and its id.
func encodeTime(replica string, c *clock.Clock) []byte {
	at, well := c.Own()
	said := binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano()))
	if well {
		said = append(said, 1)
	} else {
		said = append(said, 0)
	}
	return append(said, replica...)
}

func decodeTime(said []byte) (replica string, at time.Time, well, ok bool) {
	if len(said) < 10 {
		return "", time.Time{}, false, false
	}
	return string(said[9:]), time.Unix(0, int64(binary.BigEndian.Uint64(said))), said[8] != 0, true
}
