package state

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// saveMemoryProfiles saves what tasks of an operation have learned, for later operations:
// all profiles that the command names, or none. It skips a task whose profile is saved
// already, so repeating the command has no effect.
func (c memoryChange) saveMemoryProfiles(what string, o *operation, m *commandpb.SaveMemoryProfiles) *refusal {
	if !o.state.Finishing() && !o.state.Terminal() {
		return refuse(CodeInvalidOperationState, "%s: it is %s: profiles are saved only when it ends", what, o.state)
	}
	counts := make(map[string]int64)
	named := make(map[string]bool)
	for _, saved := range m.GetProfiles() {
		if named[saved.GetTask()] {
			return refuse(CodeInvalidCommand, "%s: task %q comes twice", what, saved.GetTask())
		}
		named[saved.GetTask()] = true
		if refused := c.checkProfile(what, o, saved, counts); refused != nil {
			return refused
		}
	}
	c.edit(o)
	for _, saved := range m.GetProfiles() {
		t := o.record.GetTasks()[o.taskIndex[scheduling.TaskName(saved.GetTask())]]
		if t.GetMemory().GetSaved() {
			continue
		}
		t.Memory.Saved = true
		p := shallow(saved.GetProfile())
		p.UpdatedTime, p.LastOperation = c.timestamp(), string(o.id())
		setProfile(c.State, p.GetKey(), p)
		c.emit(ProfileSaved{ID: o.id(), Task: scheduling.TaskName(t.GetName()), Profile: p})
	}
	o.record.LastIndex = c.index
	c.trimProfiles()
	return nil
}

// checkProfile refuses a profile that does not belong to the task, or is based on an outdated one.
// The parameter counts holds the sample counts set earlier in the command.
func (c memoryChange) checkProfile(what string, o *operation, saved *commandpb.SavedProfile, counts map[string]int64) *refusal {
	p := saved.GetProfile()
	i, ok := o.taskIndex[scheduling.TaskName(saved.GetTask())]
	if !ok {
		return refuse(CodeUnknownTask, "%s: the operation has no task %q", what, saved.GetTask())
	}
	memory := o.record.GetTasks()[i].GetMemory()
	present, later := counts[p.GetKey()]
	if !later {
		present = c.profiles[p.GetKey()].GetSampleCount()
	}
	switch {
	case memory.GetSaved():
		return nil
	case p.GetKey() == "" || p.GetKey() != memory.GetProfile():
		return refuse(CodeInvalidCommand, "%s: task %q: its profile is %q, not %q", what, saved.GetTask(), memory.GetProfile(), p.GetKey())
	case saved.GetExpectedSampleCount() != present:
		return refuse(CodeStaleProfile, "%s: task %q: profile %q has %d samples, not %d: read it again", what, saved.GetTask(), p.GetKey(), present, saved.GetExpectedSampleCount())
	case p.GetSampleCount() < present:
		return refuse(CodeInvalidCommand, "%s: task %q: profile %q would drop to %d samples from %d", what, saved.GetTask(), p.GetKey(), p.GetSampleCount(), present)
	}
	if err := checkDigests(p.GetUserDigest(), p.GetProxyDigest()); err != nil {
		return refuse(CodeInvalidCommand, "%s: task %q: %v", what, saved.GetTask(), err)
	}
	counts[p.GetKey()] = p.GetSampleCount()
	return nil
}

// removeMemoryProfiles removes profiles: all that the command names, or none.
func (c memoryChange) removeMemoryProfiles(m *commandpb.RemoveMemoryProfiles) *refusal {
	keys := slices.Compact(slices.Sorted(slices.Values(m.GetKeys())))
	if len(keys) == 0 {
		keys = slices.Sorted(maps.Keys(c.profiles))
	}
	for _, key := range keys {
		if c.profiles[key] == nil {
			return refuse(CodeUnknownProfile, "there is no profile %q", key)
		}
	}
	for _, key := range keys {
		setProfile(c.State, key, nil)
		c.emit(ProfileRemoved{Key: key})
	}
	return nil
}

// trimProfiles removes the profiles with the oldest update until their number, and what they take,
// are within the limits.
func (c memoryChange) trimProfiles() {
	for len(c.profiles) > int(c.limits.GetMemoryProfiles()) || over(c.limits, c.profileBytes, c.limits.GetMemoryProfileBytes()) {
		oldest := slices.MinFunc(values(c.profiles), compareUpdates)
		setProfile(c.State, oldest.GetKey(), nil)
		c.emit(ProfileRemoved{Key: oldest.GetKey()})
	}
}

// setProfile puts a profile in the place of the one with its key; nil removes that one.
func setProfile(s *State, key string, p *statepb.MemoryProfile) {
	if former := s.profiles[key]; former != nil {
		s.profileBytes -= int64(proto.Size(former))
	}
	if p == nil {
		delete(s.profiles, key)
		return
	}
	s.profiles[key] = p
	s.profileBytes += int64(proto.Size(p))
}

func compareUpdates(a, b *statepb.MemoryProfile) int {
	return cmp.Or(a.GetUpdatedTime().AsTime().Compare(b.GetUpdatedTime().AsTime()), cmp.Compare(a.GetKey(), b.GetKey()))
}

// Profile returns the memory profile with a key.
func (s *State) Profile(key string) (*statepb.MemoryProfile, bool) {
	p, ok := s.profiles[key]
	return p, ok
}

// Profiles returns all memory profiles by key.
func (s *State) Profiles() []*statepb.MemoryProfile {
	return listed(s.profiles, func(p *statepb.MemoryProfile) *statepb.MemoryProfile { return p })
}

// verifyProfiles checks the memory profiles.
func (s verifier) verifyProfiles() error {
	var b breach
	n, limit := len(s.profiles), int(s.limits.GetMemoryProfiles())
	b.when(n > limit, "%d memory profiles, the limit is %d", n, limit)
	var taken int64
	for key, p := range s.profiles {
		taken += int64(proto.Size(p))
		b.when(key == "" || p.GetKey() != key || p.GetSampleCount() < 0,
			"memory profile %q: its record has key %q and %d samples", key, p.GetKey(), p.GetSampleCount())
	}
	b.when(taken != s.profileBytes, "memory profiles take %d bytes, counted are %d", taken, s.profileBytes)
	b.when(over(s.limits, taken, s.limits.GetMemoryProfileBytes()), "memory profiles take %d bytes, the limit is %d", taken, s.limits.GetMemoryProfileBytes())
	return b.err
}
