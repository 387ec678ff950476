package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"weir/api/client"
)

// Run shows a cluster on a terminal until the user quits or ctx is done. It leaves the terminal as it
// was, also if it panics.
func Run(ctx context.Context, cluster Cluster, cfg Config, in, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(&shell{ctx: ctx, cluster: cluster, model: New(cfg, time.Now())},
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	// Whatever happens, the terminal gets back the mode that it had.
	if before, err := term.GetState(int(in.Fd())); err == nil {
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
	}
	_, err := p.Run()
	switch {
	case ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled):
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("terminal view: %w", err)
	}
	return nil
}

// shell carries out what a Model asks for. It implements tea.Model.
type shell struct {
	ctx     context.Context
	cluster Cluster
	model   *Model
}

// clock is how often the time on the screen is brought up to date.
const clock = 500 * time.Millisecond

// Init implements tea.Model.
func (s *shell) Init() tea.Cmd { return tea.Batch(s.update(Tick(time.Now())), tick()) }

func tick() tea.Cmd { return tea.Tick(clock, func(t time.Time) tea.Msg { return Tick(t) }) }

// Update implements tea.Model.
func (s *shell) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return s, s.update(Key(keyName(msg)))
	case tea.PasteMsg:
		var all []tea.Cmd
		for _, r := range msg.Content {
			all = append(all, s.update(Key(string(r))))
		}
		return s, tea.Batch(all...)
	case tea.WindowSizeMsg:
		return s, s.update(Resize{msg.Width, msg.Height})
	case Tick:
		return s, tea.Batch(s.update(msg), tick())
	case Answer, Done:
		return s, s.update(msg)
	}
	return s, nil
}

// keyName is the name of a key as Model knows it: the text that it types, or what it is called.
func keyName(key tea.KeyPressMsg) string {
	if key.Text != "" && key.Text != " " {
		return key.Text
	}
	return key.String()
}

// update tells the model, and returns the commands of what it asks for.
func (s *shell) update(message any) tea.Cmd {
	var all []tea.Cmd
	for _, effect := range s.model.Update(message) {
		switch e := effect.(type) {
		case Question:
			all = append(all, func() tea.Msg { return s.fetch(e) })
		case Change:
			all = append(all, func() tea.Msg { return Done{e, s.cluster.Do(s.ctx, e)} })
		case Quit:
			return tea.Quit
		}
	}
	return tea.Batch(all...)
}

func (s *shell) fetch(q Question) Answer {
	a, err := s.cluster.Fetch(s.ctx, q)
	a.Question, a.Err, a.Time = q, err, time.Now()
	a.Unreachable = errors.Is(err, client.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return a
}

// View implements tea.Model.
func (s *shell) View() tea.View {
	v := tea.NewView(s.model.View())
	v.AltScreen = true
	v.WindowTitle = "weir top"
	return v
}
