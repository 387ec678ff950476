package simulate

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

// Estimates says how good the estimates of starts were that a run gave: see docs/simulate.md.
type Estimates struct {
	// First are estimates for operations of which no job had started, and Next for others.
	First, Next Foretold
	// Questions are the single ones, in order of time.
	Questions []Question
}

// Foretold compares estimates with what happened.
type Foretold struct {
	// Asked counts the questions. Told counts those that were answered with an estimate; Untold
	// counts the others, by verdict.
	Asked, Told int64
	Untold      map[string]int64
	// Judged counts the estimates of which it is known whether they were right: a job has started,
	// or none has although the range has passed.
	Judged int64
	// ErrorP50 and ErrorP90 are quantiles of |estimated start - start| as a part of the time from
	// the question to the start, and SecondsP50 and SecondsP90 of |estimated start - start|.
	ErrorP50, ErrorP90, SecondsP50, SecondsP90 float64
	// Within is the part of the starts in the range that was told.
	Within float64
	// Width is the median of the width of the range, as a part of the time from the question to
	// the start.
	Width float64
}

// Question is an estimate that was asked for, and what happened. Times are since the beginning.
type Question struct {
	Operation string
	// First says that no job of the operation had started.
	First bool
	Asked time.Duration
	// By is how a start was to come about; empty without an estimate. Verdict is why the operation
	// waited.
	By, Verdict             string
	Start, Earliest, Latest time.Duration
	// Started is when a job started. It is -1 if none did by Ended, the end of the operation or of
	// the run.
	Started, Ended time.Duration
}

const (
	// questionsPerRun is how many questions a run asks, at even intervals, about operations that
	// wait. It asks as many again, at most, about operations that have begun to wait: their number
	// is limited at any time to what is due by then, and questionsAtOnce.
	questionsPerRun, questionsAtOnce = 500, 50
)

// estimates asks when jobs will start, and finds out when they do.
type estimates struct {
	all []Question
	// open has the indexes in all of questions without an answer from reality, by operation.
	open map[string][]int
	// fresh are the operations that have begun to wait and were not asked about yet; early counts
	// the questions about such.
	fresh []*operation
	early int
	// due is when the next question is asked at an even interval, about the first operation after
	// last by id.
	due  time.Duration
	last string
}

// begins notes that an operation may start jobs from now on.
func (e *estimates) begins(op *operation) { e.fresh = append(e.fresh, op) }

// started notes that a job of an operation has started.
func (e *estimates) started(now time.Duration, id string) {
	for _, i := range e.open[id] {
		e.all[i].Started = now
	}
	delete(e.open, id)
}

// ended notes that an operation has ended.
func (e *estimates) ended(now time.Duration, id string) {
	for _, i := range e.open[id] {
		e.all[i].Ended = now
	}
	delete(e.open, id)
}

// period is the time between two questions.
func (r *run) period() time.Duration { return max(r.file.Duration/questionsPerRun, time.Second) }

// ask asks the questions that are due.
func (r *run) ask() error {
	e := &r.estimates
	var later []*operation
	for _, op := range e.fresh {
		switch {
		case r.operations[op.ID] != op || !op.wanting() || op.begun:
			// It did not have to wait.
		case r.updated < op.runs || r.stale && r.updated == op.runs:
			// Its fair share is not known before the next update.
			later = append(later, op)
		case e.early < questionsAtOnce+int(r.now/r.period()):
			e.early++
			if err := r.askAbout(op); err != nil {
				return err
			}
		}
	}
	e.fresh = later
	if r.now < e.due {
		return nil
	}
	e.due = r.now - r.now%r.period() + r.period()
	if op := r.nextWaiting(); op != nil {
		return r.askAbout(op)
	}
	return nil
}

// nextWaiting returns the waiting operation whose turn to be asked about it is; nil if none waits.
func (r *run) nextWaiting() *operation {
	var first, next string
	for id, op := range r.operations {
		if !op.wanting() || op.runs > r.updated {
			continue
		}
		if first == "" || id < first {
			first = id
		}
		if id > r.estimates.last && (next == "" || id < next) {
			next = id
		}
	}
	if next == "" {
		next = first
	}
	r.estimates.last = next
	return r.operations[next]
}

// wanting reports whether the operation runs and has jobs to start.
func (op *operation) wanting() bool { return len(op.demand) > 0 }

func (r *run) askAbout(op *operation) error {
	x, err := r.tree.Explain(scheduling.OperationID(op.ID), r.time())
	if err != nil {
		return err
	}
	e, q := &r.estimates, Question{Operation: op.ID, First: !op.begun, Asked: r.now, Verdict: x.Verdict, Started: -1, Ended: r.file.Duration}
	if x.Verdict == explain.FactNoJobs || x.Verdict == explain.FactStarting {
		return nil
	}
	if !x.Start.IsZero() {
		q.By, q.Start, q.Earliest, q.Latest = x.StartBy, x.Start.Sub(epoch), x.Earliest.Sub(epoch), x.Latest.Sub(epoch)
	}
	e.open[op.ID] = append(e.open[op.ID], len(e.all))
	e.all = append(e.all, q)
	return nil
}

// Judge compares what was told with what happened. Errors are parts of a wait of least for all waits that are
// shorter.
func Judge(all []Question, least time.Duration) *Estimates {
	out := &Estimates{Questions: all}
	var first, next []Question
	for _, q := range all {
		if q.First {
			first = append(first, q)
		} else {
			next = append(next, q)
		}
	}
	out.First, out.Next = foretold(first, least), foretold(next, least)
	return out
}

// foretold compares what was told with what happened.
func foretold(all []Question, least time.Duration) Foretold {
	f := Foretold{Untold: map[string]int64{}}
	var errs, seconds, widths []float64
	within := 0
	for _, q := range all {
		f.Asked++
		if q.By == "" {
			f.Untold[q.Verdict]++
			continue
		}
		f.Told++
		started := q.Started
		if started < 0 {
			if q.Latest >= q.Ended {
				continue
			}
			started = q.Ended
		}
		f.Judged++
		wait, off := max(started-q.Asked, least).Seconds(), (q.Start - started).Abs().Seconds()
		errs, seconds, widths = append(errs, off/wait), append(seconds, off), append(widths, (q.Latest-q.Earliest).Seconds()/wait)
		if q.Earliest <= started && started <= q.Latest {
			within++
		}
	}
	f.ErrorP50, f.ErrorP90, f.Width = quantile(errs, .5), quantile(errs, .9), quantile(widths, .5)
	f.SecondsP50, f.SecondsP90 = quantile(seconds, .5), quantile(seconds, .9)
	if f.Judged > 0 {
		f.Within = float64(within) / float64(f.Judged)
	}
	return f
}

// quantile returns a quantile of values, which it sorts; 0 if there are none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}
