package pooltree

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxFilterBytes is the maximum length of a node filter, in bytes.
	MaxFilterBytes = 4096
	// MaxFilterTerms is how many tags and operators a node filter may have.
	MaxFilterTerms = 256
	// maxFilterDepth bounds the nesting of parentheses and negations.
	maxFilterDepth = 64
)

// Filter is an expression over the tags of nodes: tags, &, |, ! and parentheses.
// ! binds tighter than &, and & tighter than |. A tag is true for a node that has it.
// The zero value is the empty filter, which matches every node (R1).
type Filter struct {
	text string
	// ops is the expression in postfix order.
	ops []filterOp
}

type filterOp struct {
	// kind is 't' for a tag. For an operator it is the operator itself.
	kind byte
	tag  string
}

// FilterError is the error for a filter that cannot be parsed.
type FilterError struct {
	// Text is the filter. Position is the number of the faulty byte in Text, from 1.
	Text     string
	Position int
	Problem  string
}

// Error implements error. It shows the place of the fault.
func (e *FilterError) Error() string {
	return fmt.Sprintf("node filter %q, position %d: %s", e.Text, e.Position, e.Problem)
}

// ParseFilter parses a filter. The error is a *FilterError.
func ParseFilter(text string) (Filter, error) {
	p := filterParser{text: text}
	if len(text) > MaxFilterBytes {
		return Filter{}, p.fault(MaxFilterBytes, "the filter is too long: the limit is %d bytes", MaxFilterBytes)
	}
	if strings.TrimSpace(text) == "" {
		return Filter{}, nil
	}
	if err := p.or(0); err != nil {
		return Filter{}, err
	}
	if p.skip(); p.at < len(text) {
		return Filter{}, p.fault(p.at, "expected & or | before %q", text[p.at])
	}
	if len(p.ops) > MaxFilterTerms {
		return Filter{}, p.fault(0, "it has %d tags and operators, the limit is %d", len(p.ops), MaxFilterTerms)
	}
	return Filter{text: strings.TrimSpace(text), ops: p.ops}, nil
}

// String returns the filter as it was written, without leading and trailing spaces.
func (f Filter) String() string { return f.text }

// Empty reports whether the filter is empty, and so matches every node.
func (f Filter) Empty() bool { return len(f.ops) == 0 }

// Match reports whether the filter matches a node with these tags.
func (f Filter) Match(tags []string) bool {
	return f.follows(func(tag string) truth {
		if slices.Contains(tags, tag) {
			return yes
		}
		return no
	}) == yes
}

// Tags returns the tags that the filter names, sorted, each once.
func (f Filter) Tags() []string {
	var tags []string
	for _, op := range f.ops {
		if op.kind == 't' {
			tags = append(tags, op.tag)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// filterParser is a recursive descent parser that writes the postfix expression.
type filterParser struct {
	text string
	at   int
	ops  []filterOp
}

func (p *filterParser) fault(at int, format string, args ...any) error {
	return &FilterError{Text: p.text, Position: at + 1, Problem: fmt.Sprintf(format, args...)}
}

func (p *filterParser) skip() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// next consumes b if it is the next byte after blanks, and reports whether it is.
func (p *filterParser) next(b byte) bool {
	p.skip()
	if p.at == len(p.text) || p.text[p.at] != b {
		return false
	}
	p.at++
	return true
}

func (p *filterParser) or(depth int) error { return p.chain(depth, '|', p.and) }

func (p *filterParser) and(depth int) error { return p.chain(depth, '&', p.not) }

func (p *filterParser) chain(depth int, operator byte, operand func(depth int) error) error {
	if err := operand(depth); err != nil {
		return err
	}
	for p.next(operator) {
		p.next(operator) // && and || mean the same
		if err := operand(depth); err != nil {
			return err
		}
		p.ops = append(p.ops, filterOp{kind: operator})
	}
	return nil
}

func (p *filterParser) not(depth int) error {
	if depth > maxFilterDepth {
		return p.fault(p.at, "parentheses and negations are nested too deeply: the limit is %d levels", maxFilterDepth)
	}
	if p.next('!') {
		if err := p.not(depth + 1); err != nil {
			return err
		}
		p.ops = append(p.ops, filterOp{kind: '!'})
		return nil
	}
	if open := p.at; p.next('(') {
		if err := p.or(depth + 1); err != nil {
			return err
		}
		if !p.next(')') {
			return p.fault(p.at, "the parenthesis opened at position %d is not closed", open+1)
		}
		return nil
	}
	return p.tag()
}

func (p *filterParser) tag() error {
	p.skip()
	begin := p.at
	for p.at < len(p.text) && tagByte(p.text[p.at]) {
		p.at++
	}
	switch {
	case p.at > begin:
		p.ops = append(p.ops, filterOp{kind: 't', tag: p.text[begin:p.at]})
		return nil
	case p.at == len(p.text):
		return p.fault(p.at, "expected a tag at the end")
	}
	return p.fault(p.at, "expected a tag, not %q", p.text[p.at])
}

func tagByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("_-./:@+=", b) >= 0
}
