package statistics

// Sums is a Set to which packed values are added without a look at their names. Its Set is
// changed by its Add alone.
type Sums struct {
	Set
	// places has by state where in the set numbers are; unmade: the set has grown.
	places map[string]*places
}

// places has for each number where the set has it, counted from 1; 0: it has not.
type places [len(byNumber)]int32

// Add takes in the values of a job that ended in state, packed and others, as Set.Add does.
// What cannot be read is not added.
func (s *Sums) Add(state string, packed []byte, others map[string]int64) error {
	if len(others) == 0 {
		if at := s.placesOf(state); at.all(packed) {
			return each(packed, func(number int, amount int64) bool {
				s.Set[at[number]-1].Aggregate.Add(amount)
				return true
			})
		}
	}
	values, err := Unpack(packed, others)
	if err != nil {
		return err
	}
	s.Set.Add(state, values)
	s.places = nil
	return nil
}

// placesOf returns where the numbers of a state are.
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

// all reports whether packed values can be read and all have a place.
func (p *places) all(packed []byte) bool {
	all := true
	err := each(packed, func(number int, _ int64) bool {
		all = p[number] != 0
		return all
	})
	return all && err == nil
}

// Clone returns a copy that shares nothing.
func (s *Sums) Clone() Sums { return Sums{Set: s.Set.Clone()} }
