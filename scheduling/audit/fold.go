package audit

import (
	"cmp"
	"slices"
	"time"
)

// Window is how long equal decisions are counted together.
const Window = time.Second

// Limits bound what a Fold holds.
type Limits struct {
	// Distinct is how many different decisions of one account get a line of their own within Window.
	// More are counted by method and outcome, but for changes that were made. Default 500.
	Distinct int
	// Pending is how many lines may wait to be written. Default 32768: 20 MiB, or 60 MiB if all tell long changes.
	Pending int
}

// DefaultLimits returns the default of every limit.
func DefaultLimits() Limits { return Limits{Distinct: 500, Pending: 32768} }

// Fold turns decisions into lines. The first of equal decisions is a line at once. Those that follow
// within Window are one more line, with their number. If too many lines wait, the account that has
// most of them loses some, so that an account with fewer than its part of Limits.Pending loses none.
type Fold struct {
	limits   Limits
	accounts map[string]*account
	// pending is the number of lines that wait, of all accounts. Invariant: pending <= limits.Pending.
	pending int
	// arrivals counts the lines so far. It orders lines of different accounts.
	arrivals uint64
	lost     int64
}

// account is what a Fold knows of one account.
type account struct {
	name string
	// began is when the first decision of the current window came.
	began time.Time
	// seen holds a repetition for each line of the window.
	seen map[Line]*Line
	// waiting are the lines to be written, in order of arrival.
	waiting []arrival
	// lost counts the decisions of the lines that were dropped; last is the latest one.
	lost int64
	last Line
}

type arrival struct {
	Line
	order uint64
}

// NewFold returns a Fold without lines.
func NewFold(limits Limits) *Fold { return &Fold{limits: limits, accounts: make(map[string]*account)} }

// Add adds a decision. Its Time is the present time.
func (f *Fold) Add(line Line) {
	name := line.Account()
	a := f.accounts[name]
	if a == nil {
		a = &account{name: name, began: line.Time, seen: make(map[Line]*Line)}
		f.accounts[name] = a
	}
	key := line.key()
	again, repeated := a.seen[key]
	if !repeated && len(a.seen) >= f.limits.Distinct && !line.changed() {
		line = line.coarse()
		key = line.key()
		again, repeated = a.seen[key]
	}
	switch {
	case !repeated:
		if f.push(a, line) {
			a.seen[key] = &Line{}
		}
	case again.Count == 0:
		*again = line
		again.Count, again.Until = 1, line.Time
	default:
		again.Count++
		again.Until = line.Time
	}
}

// push adds a line to those of an account that wait, and reports whether there was room for it.
func (f *Fold) push(a *account, line Line) bool {
	if f.pending >= f.limits.Pending {
		most := f.most(a)
		if len(most.waiting) <= len(a.waiting) {
			f.lose(a, line)
			return false
		}
		end := len(most.waiting) - 1
		f.lose(most, most.waiting[end].Line)
		most.waiting = most.waiting[:end]
		f.pending--
	}
	f.arrivals++
	a.waiting = append(a.waiting, arrival{line, f.arrivals})
	f.pending++
	return true
}

func (f *Fold) lose(a *account, line Line) {
	n := max(line.Count, 1)
	a.lost += n
	f.lost += n
	a.last = line
}

// most returns the account with most lines that wait. It is a, without a look at the others, if a has
// its part of the limit.
func (f *Fold) most(a *account) *account {
	if len(a.waiting) >= f.limits.Pending/len(f.accounts)+1 {
		return a
	}
	most := a
	for _, other := range f.accounts {
		if n := cmp.Compare(len(other.waiting), len(most.waiting)); n > 0 || n == 0 && other.name < most.name {
			most = other
		}
	}
	return most
}

// Take returns the lines that are due, in order of arrival, and forgets them. With `all` it returns
// also the repetitions whose window has not ended.
func (f *Fold) Take(now time.Time, all bool) []Line {
	var taken []arrival
	for name, a := range f.accounts {
		taken = append(taken, a.waiting...)
		f.pending -= len(a.waiting)
		a.waiting = nil
		if !all && now.Sub(a.began) < Window && !now.Before(a.began) {
			continue
		}
		for _, again := range a.seen {
			if again.Count > 0 {
				taken = append(taken, f.repetition(*again))
			}
		}
		if a.lost > 0 {
			taken = append(taken, arrival{a.losses(), f.arrivals + 1})
		}
		delete(f.accounts, name)
	}
	slices.SortFunc(taken, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.order, b.order), a.Time.Compare(b.Time), cmp.Compare(a.Account(), b.Account()),
			cmp.Compare(a.Method, b.Method), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Request, b.Request))
	})
	lines := make([]Line, len(taken))
	for i, line := range taken {
		lines[i] = line.Line
	}
	return lines
}

// repetition returns the line of decisions that repeat an earlier one. It comes after all lines that
// wait.
func (f *Fold) repetition(line Line) arrival {
	if line.Count == 1 {
		line.Count, line.Until = 0, time.Time{}
	}
	return arrival{line, f.arrivals + 1}
}

// losses returns the line that says how many decisions of an account are missing.
func (a *account) losses() Line {
	return LostLine(a.last, a.lost, "too many lines waited to be written")
}

// LostLine returns the line that says that n decisions are missing; like is one of them.
func LostLine(like Line, n int64, why string) Line {
	return Line{Time: like.Time, Role: like.Role, User: like.User, Outcome: Lost, Why: why, Count: n}
}

// Lost returns how many decisions have been dropped so far.
func (f *Fold) Lost() int64 { return f.lost }

// Pending returns how many lines wait.
func (f *Fold) Pending() int { return f.pending }

// Segment is a part of the log on the disk: the bytes of each account in it.
type Segment map[string]int64

// Victim returns which lines of a log give way to new ones: those of the account with most bytes, in
// the oldest segment that has some. Thus an account that has no more than its part of the log loses
// none. It returns false if the log is empty.
func Victim(oldestFirst []Segment) (segment int, account string, ok bool) {
	held := make(map[string]int64)
	for _, s := range oldestFirst {
		for name, bytes := range s {
			held[name] += bytes
		}
	}
	for name, bytes := range held {
		if !ok || bytes > held[account] || bytes == held[account] && name < account {
			account, ok = name, true
		}
	}
	for i, s := range oldestFirst {
		if _, has := s[account]; has && ok {
			return i, account, true
		}
	}
	return 0, "", false
}
