package top

import (
	"fmt"
	"strings"

	"weir/cmd/weir/internal/figures"
)

// dialog asks before a change. It keeps what it asked about, whatever is selected meanwhile.
type dialog struct {
	change Change
	// counted is set when the loss is known, or cannot be known for a reason.
	counted bool
	loss    Loss
	unknown string
}

// proposal returns the change that a key makes to the selected thing; false if there is none.
func proposal(key string, of subject) (Change, bool) {
	c := Change{Title: of.title}
	switch {
	case key == "D" && of.node != "" && of.job == "":
		c.Verb, c.Node = Drain, of.node
		if of.drained {
			c.Verb = Undrain
		}
	case key == "A" && of.live && of.job != "":
		c.Verb, c.Job, c.Operation = Abort, of.job, of.operation
	case key == "I" && of.live && of.job != "":
		c.Verb, c.Job, c.Operation = Interrupt, of.job, of.operation
	case key == "A" && of.live && of.operation != "":
		c.Verb, c.Operation = Abort, of.operation
	default:
		return Change{}, false
	}
	return c, true
}

// allowed reports whether a key changes the selected thing, and the user may do that.
func (m *Model) allowed(key string) bool {
	of := m.top().subject()
	c, ok := proposal(key, of)
	switch {
	case !ok || !m.cfg.Write:
		return false
	case c.Node != "":
		return m.summary.Operator
	default:
		return m.rights[c.Operation].allowed
	}
}

// propose opens the dialog of a change, and asks what it would end.
func (m *Model) propose(key string) {
	if !m.allowed(key) {
		return
	}
	c, _ := proposal(key, m.top().subject())
	m.dialog = &dialog{change: c}
	m.effects = append(m.effects, Question{About: aboutLoss, Change: c})
}

// count takes in what the change would end.
func (d *dialog) count(a Answer) {
	d.counted, d.loss = true, a.Loss
	if a.Err != nil {
		d.unknown = a.Err.Error()
	}
}

// decide makes the change if the key is y and the loss is on the screen; any other key closes the dialog.
func (m *Model) decide(key string) {
	d := m.dialog
	switch {
	case key == "y" && !d.counted:
		return
	case key == "y":
		m.effects = append(m.effects, d.change)
		m.said, m.saidBad = string(d.change.Verb)+" "+d.change.Title+"…", false
	default:
		m.said, m.saidBad = "left as it is", false
	}
	m.dialog = nil
}

// lines says what the change does, to whom, and what is lost.
func (d *dialog) lines(w int) []string {
	verb := string(d.change.Verb)
	out := wrap(figures.Printable(fmt.Sprintf("%s %s?", strings.ToUpper(verb[:1])+verb[1:], d.change.Title)), w)
	for i := range out {
		out[i] = bold.on(out[i])
	}
	switch {
	case !d.counted:
		return append(out, "counting what it would end…   "+bold.on("Esc")+" leave it")
	case d.unknown != "":
		out = append(out, wrap(figures.Printable("What it would end is not known: "+d.unknown), w)...)
	default:
		out = append(out, wrap(figures.Printable(d.consequence()), w)...)
	}
	return append(out, bold.on("y")+" "+verb+"   "+bold.on("any other key")+" leave it")
}

func (d *dialog) consequence() string {
	l := d.loss
	jobs := figures.Several(l.Jobs, "running job") + figures.When(len(l.Users) > 0, " of "+strings.Join(l.Users, ", ")) +
		figures.When(l.More, " and more")
	ran := figures.Span(l.Ran)
	switch {
	case d.change.Verb == Undrain:
		return "It gets jobs again."
	case d.change.Verb == Drain:
		return "It gets no more jobs. " + figures.When(l.Jobs > 0, jobs+" there go on to their end; no work is lost.") +
			figures.When(l.Jobs == 0, "No jobs are there.")
	case d.change.Job != "" && l.Jobs == 0:
		return "It has ended already."
	case d.change.Verb == Interrupt:
		return fmt.Sprintf("The job of %s is asked to stop, and killed when its time is over. It has run for %s; what it does not save of that is lost. It runs again.", strings.Join(l.Users, ", "), ran)
	case d.change.Job != "":
		return fmt.Sprintf("The job of %s is killed. It has run for %s; that work is lost. It runs again.", strings.Join(l.Users, ", "), ran)
	case l.Jobs == 0:
		return figures.When(len(l.Users) > 0, "It is of "+strings.Join(l.Users, ", ")+". ") + "No jobs run; no work is lost. What has not run will not."
	default:
		return fmt.Sprintf("%s: killed at once. They have run for %s in all; that work is lost.", jobs, ran)
	}
}
