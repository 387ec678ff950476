package records

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deep JSON values may be nested, as in encoding/json.
const maxDepth = 10000

// expect is a state of the JSON validator: what may come next.
type expect uint8

const (
	expectValue expect = iota
	// expectElement is a value, or the end of an array.
	expectElement
	// expectFirstKey is a key, or the end of an object. expectKey is a key alone.
	expectFirstKey
	expectKey
	expectColon
	// afterValue is a comma, or the end of the enclosing array or object.
	afterValue

	inString
	inEscape
	// inHex is the first of the four digits after \u.
	inHex
	inHex2
	inHex3
	inHex4
	inLiteral

	// Numbers, by the part seen so far.
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterExponent
	afterExponentSign
	inExponent

	// The following are not states but actions: for these, the next state depends on earlier bytes.
	begin
	end
	comma
	beginKey
	beginString
	endString
	beginLiteral
	letter
	wrong
)

// step gives the next state after one of these bytes.
type step struct {
	on string
	to expect
}

const (
	space    = " \t\r\n"
	nonzero  = "123456789"
	digits   = "0" + nonzero
	hexDigit = digits + "abcdefABCDEF"
)

var (
	ends   = []step{{space, afterValue}, {",", comma}, {"]}", end}}
	values = []step{{"{[", begin}, {`"`, beginString}, {"tfn", beginLiteral}, {"-", afterMinus}, {"0", afterZero}, {nonzero, inInteger}}
)

// rules hold, for each state, the text for what is expected, and the steps.
var rules = [...]struct {
	wanted string
	steps  []step
}{
	expectValue:       {"a value", append(values, step{space, expectValue})},
	expectElement:     {"a value or ]", append(values, step{space, expectElement}, step{"]", end})},
	expectFirstKey:    {"a key or }", []step{{space, expectFirstKey}, {`"`, beginKey}, {"}", end}}},
	expectKey:         {"a key in quotes", []step{{space, expectKey}, {`"`, beginKey}}},
	expectColon:       {"a colon", []step{{space, expectColon}, {":", expectValue}}},
	afterValue:        {"a comma or the end of the enclosing array or object", ends},
	inString:          {"a character that needs no escape", []step{{plain(), inString}, {`\`, inEscape}, {`"`, endString}}},
	inEscape:          {`one of "\/bfnrtu`, []step{{`"\/bfnrt`, inString}, {"u", inHex}}},
	inHex:             {"a hexadecimal digit", []step{{hexDigit, inHex2}}},
	inHex2:            {"a hexadecimal digit", []step{{hexDigit, inHex3}}},
	inHex3:            {"a hexadecimal digit", []step{{hexDigit, inHex4}}},
	inHex4:            {"a hexadecimal digit", []step{{hexDigit, inString}}},
	inLiteral:         {"true, false or null", []step{{"aelrsu", letter}}},
	afterMinus:        {"a digit", []step{{"0", afterZero}, {nonzero, inInteger}}},
	afterZero:         {"a decimal point, an exponent or the end of the number after a leading 0", append(ends, step{".", afterPoint}, step{"eE", afterExponent})},
	inInteger:         {"a digit, or the end of the number", append(ends, step{digits, inInteger}, step{".", afterPoint}, step{"eE", afterExponent})},
	afterPoint:        {"a digit", []step{{digits, inFraction}}},
	inFraction:        {"a digit, or the end of the number", append(ends, step{digits, inFraction}, step{"eE", afterExponent})},
	afterExponent:     {"a digit or a sign", []step{{"+-", afterExponentSign}, {digits, inExponent}}},
	afterExponentSign: {"a digit", []step{{digits, inExponent}}},
	inExponent:        {"a digit, or the end of the number", append(ends, step{digits, inExponent})},
}

// plain returns the bytes that a string may hold unescaped and that do not end it.
func plain() string {
	var all []byte
	for b := ' '; b < 256; b++ {
		if b != '"' && b != '\\' {
			all = append(all, byte(b))
		}
	}
	return string(all)
}

// next is the table of steps by state and byte.
var next = func() (next [len(rules)][256]expect) {
	for now, rule := range rules {
		for b := range next[now] {
			next[now][b] = wrong
		}
		for _, step := range rule.steps {
			for _, b := range []byte(step.on) {
				next[now][b] = step.to
			}
		}
	}
	return next
}()

// validator checks incrementally that its input is one JSON value, by the rules of encoding/json.
// The zero validator expects a value.
type validator struct {
	now expect
	// key means that the current string is a key.
	key bool
	// deep means that the value is nested deeper than maxDepth.
	deep bool
	// literal is the rest of the current literal.
	literal string
	// depth is the number of enclosing levels. objects has a bit for each of them, set for an object.
	depth   int
	objects [(maxDepth + 63) / 64]uint64
}

// reset begins another value.
func (v *validator) reset() { v.now, v.depth, v.deep = expectValue, 0, false }

// take validates more bytes and returns the index of the first invalid one, or -1.
func (v *validator) take(part []byte) int {
	for i, b := range part {
		if to := next[v.now][b]; to < begin {
			v.now = to
		} else if !v.act(to, b) {
			return i
		}
	}
	return -1
}

// act performs an action for a byte, and returns false if the byte is invalid.
func (v *validator) act(what expect, b byte) bool {
	switch what {
	case begin:
		return v.enter(b == '{')
	case end:
		if v.depth == 0 || v.inObject() != (b == '}') {
			return false
		}
		v.depth--
		v.now = afterValue
	case comma:
		if v.depth == 0 {
			return false
		}
		v.now = expectValue
		if v.inObject() {
			v.now = expectKey
		}
	case beginKey, beginString:
		v.now, v.key = inString, what == beginKey
	case endString:
		v.now = afterValue
		if v.key {
			v.now = expectColon
		}
	case beginLiteral:
		v.now, v.literal = inLiteral, map[byte]string{'t': "true", 'f': "false", 'n': "null"}[b][1:]
	case letter:
		if b != v.literal[0] {
			return false
		}
		if v.literal = v.literal[1:]; v.literal == "" {
			v.now = afterValue
		}
	default:
		return false
	}
	return true
}

// inObject reports whether the innermost level is an object. There must be a level.
func (v *validator) inObject() bool { return v.objects[(v.depth-1)/64]&(1<<((v.depth-1)%64)) != 0 }

func (v *validator) enter(object bool) bool {
	if v.depth == maxDepth {
		v.deep = true
		return false
	}
	bit := uint64(1) << (v.depth % 64)
	if object {
		v.objects[v.depth/64] |= bit
		v.now = expectFirstKey
	} else {
		v.objects[v.depth/64] &^= bit
		v.now = expectElement
	}
	v.depth++
	return true
}

// complete reports whether the bytes so far are a complete value.
func (v *validator) complete() bool {
	switch v.now {
	case afterValue, afterZero, inInteger, inFraction, inExponent:
		return v.depth == 0
	default:
		return false
	}
}

// complaint describes the invalid byte.
func (v *validator) complaint(wrong byte) string {
	if v.deep {
		return fmt.Sprintf("invalid JSON: values are nested more than %d levels deep", maxDepth)
	}
	if wrong >= utf8.RuneSelf {
		return fmt.Sprintf("invalid JSON: found byte %#x, %s", wrong, v.wanted())
	}
	return fmt.Sprintf("invalid JSON: found %q, %s", wrong, v.wanted())
}

// wanted describes what was expected.
func (v *validator) wanted() string {
	if v.now == afterValue && v.depth == 0 {
		return "expected the end of the line after the value"
	}
	return "expected " + rules[v.now].wanted
}
