package statistics

// Sums is a Set to which packed values are added without looking up their names. It knows what its
// records take. Only methods of Sums may change its Set.
type Sums struct {
	Set
	// places maps a state to the places of its numbers in the set. It is nil after the set has
	// grown.
	places map[string]*places
	// bytes is what the records of the set take at most.
	bytes int64
}

// NewSums returns a Sums of a set, which it owns from now on.
func NewSums(set Set) Sums { return Sums{Set: set, bytes: set.bytes()} }

// Bytes returns what the records of the set take at most.
func (s *Sums) Bytes() int64 { return s.bytes }

// places holds the place of each number in the set, counted from 1. The place is 0 if the set does not
// have the number.
type places [len(byNumber)]int32

// Add adds the values of a job that ended in `state`, in the way of Set.Add. The parameters packed and
// others hold the values. If the packed values are invalid, nothing is added.
func (s *Sums) Add(state string, packed []byte, others map[string]int64) error {
	if len(others) == 0 {
		if at := s.placesOf(state); at.all(packed) {
			return each(packed, func(number int, amount int64) bool {
				of := &s.Set[at[number]-1].Aggregate
				buckets := len(of.Buckets)
				of.Add(amount)
				s.bytes += int64(bucketBytes * (len(of.Buckets) - buckets))
				return true
			})
		}
	}
	values, err := Unpack(packed, others)
	if err != nil {
		return err
	}
	s.Set.Add(state, values)
	s.places, s.bytes = nil, s.Set.bytes()
	return nil
}

// AddWithoutRoom is like Sums.Add for a set that must not grow: its histograms go, and values whose
// name and state are new are left out.
func (s *Sums) AddWithoutRoom(state string, packed []byte, others map[string]int64) error {
	values, err := Unpack(packed, others)
	if err != nil {
		return err
	}
	s.DropHistograms()
	for name, amount := range values {
		if i, found := s.find(name, state); found {
			s.Set[i].Aggregate.Add(amount)
		}
	}
	return nil
}

// DropHistograms drops the histograms. Counts, sums and bounds stay.
func (s *Sums) DropHistograms() {
	for i := range s.Set {
		s.Set[i].Buckets, s.Set[i].Counts = nil, nil
	}
	s.bytes = s.Set.bytes()
}

// placesOf returns the places of the numbers of a state.
func (s *Sums) placesOf(state string) *places {
	if at := s.places[state]; at != nil {
		return at
	}
	at := new(places)
	for i := range s.Set {
		if number, ok := numbers[s.Set[i].Name]; ok && s.Set[i].State == state {
			at[number] = int32(i) + 1
		}
	}
	if s.places == nil {
		s.places = make(map[string]*places)
	}
	s.places[state] = at
	return at
}

// all reports whether packed values are valid and all have a place.
func (p *places) all(packed []byte) bool {
	all := true
	err := each(packed, func(number int, _ int64) bool {
		all = p[number] != 0
		return all
	})
	return all && err == nil
}

// Clone returns a deep copy.
func (s *Sums) Clone() Sums { return Sums{Set: s.Set.Clone(), bytes: s.bytes} }
