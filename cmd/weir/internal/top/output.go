package top

import (
	"strings"
	"unicode/utf8"

	"weir/cmd/weir/internal/figures"
)

// newOutput shows what a job has written, and follows it.
func newOutput(m *Model, of subject) page {
	p := &textPage{base: base{page: m.nextPage()}, of: of, output: true, follow: true, stream: "stdout"}
	p.title = outputTitle(of, p.stream)
	p.first = func() Question {
		return Question{About: aboutOutput, Job: of.job, Stream: p.stream, Offset: p.next}
	}
	return p
}

func outputTitle(of subject, stream string) string { return stream + " of " + of.title }

// splitLines returns the lines of a text, safe to print. The last is the line that is not yet whole. Of a
// line that overwrites itself, only the end is kept, as on a terminal.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		lines[i] = figures.Printable(strings.ReplaceAll(line, "\t", "    "))
	}
	return lines
}

// wholeRunes returns how many bytes of a text there are without a character that is cut at its end.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= max(len(text)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(text[i]) {
			if i > 0 && !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
