package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

// format is the form of the output: for people, or for programs. It is a pflag.Value.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

var formats = []string{string(formatTable), string(formatWide), string(formatJSON), string(formatYAML)}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (*format) Type() string { return "format" }

// forPeople reports whether the output is text.
func (f format) forPeople() bool { return f == formatTable || f == formatWide }

// Set implements pflag.Value.
func (f *format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("must be one of %s", strings.Join(formats, ", "))
	}
	*f = format(text)
	return nil
}

// registerOutput adds --output to flags, the flags of cmd. Its value is read into f.
func registerOutput(cmd *cobra.Command, flags *pflag.FlagSet, f *format) {
	flags.VarP(f, "output", "o", "output format: table; wide, with whole ids and more columns; json or yaml")
	must(cmd.RegisterFlagCompletionFunc("output", fixed(formats...)))
}

// view is an answer in all its forms.
type view struct {
	// message is the answer for programs.
	message proto.Message
	// text returns the answer for people, as seen at the time `now`.
	text func(now time.Time) string
	// fit, if set, is text for a screen of so many columns, 0: of any number; it leaves out what matters less.
	fit func(now time.Time, screen int) string
	// rows is set if text is a list. On a terminal its rows are clipped to one line each.
	rows bool
	// empty is shown instead of the result of `text` if there is nothing to show.
	empty string
	// calm is message without the fields that change all the time; nil if it has no such fields.
	calm proto.Message
}

// sameAs reports whether nothing has changed that is worth printing again.
func (v view) sameAs(other view) bool {
	a, b := v.calm, other.calm
	if a == nil || b == nil {
		a, b = v.message, other.message
	}
	return v.empty == other.empty && proto.Equal(a, b)
}

// printer prints answers.
type printer struct {
	out, err io.Writer
	format   format
	// color is set if states have colors.
	color bool
	// live is set if out is a terminal, which can be redrawn.
	live bool
	// period is how often a watched answer is read and drawn.
	period  time.Duration
	printed bool
}

func newPrinter(out, err io.Writer, f format) *printer {
	return &printer{out: out, err: err, format: f, live: isTerminal(out), period: time.Second}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// coloring says whether states are shown in colors. It is a pflag.Value.
type coloring string

const (
	colorAuto   coloring = "auto"
	colorNever  coloring = "never"
	colorAlways coloring = "always"
)

// String implements pflag.Value.
func (c *coloring) String() string { return string(*c) }

// Type implements pflag.Value.
func (*coloring) Type() string { return "string" }

// Set implements pflag.Value.
func (c *coloring) Set(text string) error {
	if all := []coloring{colorAuto, colorNever, colorAlways}; !slices.Contains(all, coloring(text)) {
		return errors.New("must be auto, never or always")
	}
	*c = coloring(text)
	return nil
}

// registerColor adds --color to flags, the flags of cmd.
func registerColor(cmd *cobra.Command, flags *pflag.FlagSet, c *coloring) {
	*c = colorAuto
	flags.Var(c, "color", "color states: auto, on terminals unless NO_COLOR is set; never; or always")
	must(cmd.RegisterFlagCompletionFunc("color", fixed(string(colorAuto), string(colorNever), string(colorAlways))))
}

// holds reports whether what is written to out has colors.
func (c coloring) holds(out io.Writer, getenv func(string) string) bool {
	auto := isTerminal(out) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return c == colorAlways || c != colorNever && auto
}

// show prints an answer.
func (p *printer) show(v view) error {
	if !p.format.forPeople() {
		data, err := encode(v.message, p.format)
		if err != nil {
			return err
		}
		if p.format == formatYAML && p.printed {
			data = append([]byte("---\n"), data...)
		}
		p.printed = true
		return p.write(string(data))
	}
	if v.empty != "" {
		p.note("%s", v.empty)
		return nil
	}
	p.printed = true
	if p.live && v.rows && p.format != formatWide {
		screen, _ := screenSize(p.out)
		return p.write(clipRows(p.draw(v, screen), screen))
	}
	return p.write(p.draw(v, 0))
}

// draw returns the answer for people, for a screen of so many columns; 0: of any number.
func (p *printer) draw(v view, screen int) string {
	var text string
	if v.fit != nil {
		text = v.fit(time.Now(), screen)
	} else {
		text = v.text(time.Now())
	}
	if !p.color {
		text = figures.Plain(text)
	}
	return text
}

// ids returns how ids are shown.
func (p *printer) ids() figures.IDs { return figures.IDs{Full: p.format == formatWide} }

// named returns how the ids in an answer are shown, with what the operations among them are called.
func (s *session) named(ctx context.Context, answer proto.Message) figures.IDs {
	return s.called(ctx, figures.IDsIn(answer)...)
}

// called is like named, for some ids. Each is asked for once, also one that the cluster does not know; if the
// cluster does not answer, ids are shown bare.
func (s *session) called(ctx context.Context, some ...string) figures.IDs {
	ids := s.ids()
	if !s.format.forPeople() {
		return ids
	}
	if s.names == nil {
		s.names = map[string]*apipb.OperationName{}
	}
	var unknown []string
	for _, id := range some {
		if _, known := s.names[id]; id != "" && !known {
			s.names[id] = nil
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		names, _ := s.OperationNames(ctx, unknown)
		maps.Copy(s.names, names)
	}
	ids.Names = s.names
	return ids
}

// said reports a change: as a line, or as the answer for programs. If the change failed, it
// only returns the error.
func (p *printer) said(failed error, message proto.Message, line string, args ...any) error {
	if failed != nil {
		return failed
	}
	return p.show(view{message: message, text: func(time.Time) string { return fmt.Sprintf(line, args...) + "\n" }})
}

// note prints a line to stderr that is not part of the answer.
func (p *printer) note(line string, args ...any) {
	fmt.Fprintf(p.err, line+"\n", args...)
}

// warn prints the warnings about an accepted request.
func (p *printer) warn(warnings []string) {
	for _, warning := range warnings {
		p.note("%s", warning)
	}
}

func (p *printer) write(text string) error {
	if _, err := io.WriteString(p.out, text); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// messageOf converts a value, by its JSON, to an answer for programs.
func messageOf(value any) (*structpb.Struct, error) {
	message := &structpb.Struct{}
	data, err := json.Marshal(value)
	if err == nil {
		err = message.UnmarshalJSON(data)
	}
	if err != nil {
		return nil, fmt.Errorf("print the answer: %w", err)
	}
	return message, nil
}

// encode writes a message for programs: fields are named as in the .proto files, and written even
// when they are zero. Equal messages give equal text.
func encode(message proto.Message, f format) ([]byte, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("print as %s: %w", f, err)
	}
	if f == formatYAML {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return nil, fmt.Errorf("print as yaml: %w", err)
		}
		return data, nil
	}
	// protojson varies its spaces on purpose.
	var steady bytes.Buffer
	if err := json.Indent(&steady, data, "", "  "); err != nil {
		return nil, fmt.Errorf("print as json: %w", err)
	}
	steady.WriteByte('\n')
	return steady.Bytes(), nil
}
