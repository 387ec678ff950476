package records

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10000

// expect is what a JSON value may go on with.
type expect uint8

const (
	expectValue expect = iota
	// expectElement is a value, or the end of an array.
	expectElement
	// expectFirstKey is a key, or the end of an object; expectKey is a key alone.
	expectFirstKey
	expectKey
	expectColon
	// afterValue is a comma, or the end of what the value is in.
	afterValue

	inString
	inEscape
	// inHex is four digits of \u, the first of them.
	inHex
	inHex2
	inHex3
	inHex4
	inLiteral

	// Numbers, by what has been seen of them.
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterExponent
	afterExponentSign
	inExponent
)

// wants are the expectations, for people.
var wants = [...]string{
	expectValue: "a value", expectElement: "a value or ]", expectFirstKey: "a key or }", expectKey: "a key in quotes", expectColon: "a colon",
	afterValue: "a comma or the end of what the value is in",
	inString:   "a character that needs no escape", inEscape: `one of "\/bfnrtu`,
	inHex: "a hexadecimal digit", inHex2: "a hexadecimal digit", inHex3: "a hexadecimal digit", inHex4: "a hexadecimal digit",
	inLiteral: "true, false or null", afterMinus: "a digit", afterZero: "the end of the number 0, a point or an exponent",
	inInteger: "a digit, or the end of the number", afterPoint: "a digit", inFraction: "a digit, or the end of the number",
	afterExponent: "a digit or a sign", afterExponentSign: "a digit", inExponent: "a digit, or the end of the number",
}

// validator checks that the bytes that it is told are one JSON value, as encoding/json
// would, but without having to have all of them. The zero validator expects a value.
type validator struct {
	now expect
	// key: the string that is read is one.
	key bool
	// deep: one level more than is allowed.
	deep bool
	// literal is the rest of the literal that is read.
	literal string
	// objects has a bit for each level that the value is in: set where it is an object.
	depth   int
	objects [(maxDepth + 63) / 64]uint64
}

// reset expects another value.
func (v *validator) reset() { v.now, v.depth, v.deep = expectValue, 0, false }

// plain are the bytes that a string may hold as they are and that do not end it.
var plain = func() (plain [256]bool) {
	for b := range plain {
		plain[b] = b >= ' ' && b != '"' && b != '\\'
	}
	return plain
}()

// take goes on with some bytes and returns the index of the first that is wrong, or -1.
func (v *validator) take(part []byte) int {
	for i := 0; i < len(part); i++ {
		b := part[i]
		switch v.now {
		case inString:
			for plain[b] {
				if i++; i == len(part) {
					return -1
				}
				b = part[i]
			}
			switch {
			case b == '\\':
				v.now = inEscape
			case b != '"':
				return i
			case v.key:
				v.now = expectColon
			default:
				v.now = afterValue
			}
		case inInteger, inFraction, inExponent:
			for '0' <= b && b <= '9' {
				if i++; i == len(part) {
					return -1
				}
				b = part[i]
			}
			if !v.afterDigits(b) {
				return i
			}
		default:
			if !v.takeOne(b) {
				return i
			}
		}
	}
	return -1
}

// takeOne goes on with one byte, outside of strings and runs of digits.
func (v *validator) takeOne(b byte) bool {
	switch v.now {
	case expectValue, expectElement, expectFirstKey, expectKey, expectColon, afterValue:
		return b == ' ' || b == '\t' || b == '\r' || b == '\n' || v.takeToken(b)
	case inEscape:
		switch b {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			v.now = inString
		case 'u':
			v.now = inHex
		default:
			return false
		}
	case inHex, inHex2, inHex3, inHex4:
		digit := '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
		if !digit {
			return false
		}
		if v.now++; v.now > inHex4 {
			v.now = inString
		}
	case inLiteral:
		if b != v.literal[0] {
			return false
		}
		if v.literal = v.literal[1:]; v.literal == "" {
			v.now = afterValue
		}
	default:
		return v.takeNumber(b)
	}
	return true
}

// takeToken goes on with a byte between values, which is no space.
func (v *validator) takeToken(b byte) bool {
	switch v.now {
	case expectColon:
		v.now = expectValue
		return b == ':' || v.still(expectColon)
	case afterValue:
		return v.afterValue(b)
	case expectFirstKey, expectKey:
		switch {
		case b == '"':
			v.now, v.key = inString, true
		case b == '}' && v.now == expectFirstKey:
			v.leave()
		default:
			return false
		}
		return true
	}
	if b == ']' && v.now == expectElement {
		v.leave()
		return true
	}
	switch b {
	case '"':
		v.now, v.key = inString, false
	case '{':
		return v.enter(true)
	case '[':
		return v.enter(false)
	case 't':
		v.now, v.literal = inLiteral, "true"[1:]
	case 'f':
		v.now, v.literal = inLiteral, "false"[1:]
	case 'n':
		v.now, v.literal = inLiteral, "null"[1:]
	case '-':
		v.now = afterMinus
	case '0':
		v.now = afterZero
	default:
		if b < '1' || b > '9' {
			return false
		}
		v.now = inInteger
	}
	return true
}

// still goes back to an expectation that was not met.
func (v *validator) still(now expect) bool {
	v.now = now
	return false
}

// afterValue goes on behind a value.
func (v *validator) afterValue(b byte) bool {
	if v.depth == 0 {
		return false
	}
	object := v.objects[(v.depth-1)/64]&(1<<((v.depth-1)%64)) != 0
	switch {
	case b == ',' && object:
		v.now = expectKey
	case b == ',':
		v.now = expectValue
	case b == '}' && object, b == ']' && !object:
		v.leave()
	default:
		return false
	}
	return true
}

// takeNumber goes on with a byte behind the beginning of a number that is no digits yet.
func (v *validator) takeNumber(b byte) bool {
	digit := '0' <= b && b <= '9'
	switch {
	case v.now == afterMinus && b == '0':
		v.now = afterZero
	case v.now == afterMinus && digit:
		v.now = inInteger
	case v.now == afterZero:
		return v.afterDigits(b)
	case v.now == afterPoint && digit:
		v.now = inFraction
	case v.now == afterExponent && (b == '+' || b == '-'):
		v.now = afterExponentSign
	case (v.now == afterExponent || v.now == afterExponentSign) && digit:
		v.now = inExponent
	default:
		return false
	}
	return true
}

// afterDigits goes on behind digits with what is none.
func (v *validator) afterDigits(b byte) bool {
	was := v.now
	switch {
	case b == '.' && (was == inInteger || was == afterZero):
		v.now = afterPoint
	case (b == 'e' || b == 'E') && was != inExponent:
		v.now = afterExponent
	default:
		v.now = afterValue
		return v.takeOne(b) || v.still(was)
	}
	return true
}

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

func (v *validator) leave() {
	v.depth--
	v.now = afterValue
}

// complete says whether the bytes so far are a value.
func (v *validator) complete() bool {
	switch v.now {
	case afterValue, afterZero, inInteger, inFraction, inExponent:
		return v.depth == 0
	default:
		return false
	}
}

// complaint is about the byte that was wrong.
func (v *validator) complaint(wrong byte) string {
	if v.deep {
		return fmt.Sprintf("invalid JSON: more than %d levels", maxDepth)
	}
	if wrong >= utf8.RuneSelf {
		return fmt.Sprintf("invalid JSON: found byte %#x, %s", wrong, v.wanted())
	}
	return fmt.Sprintf("invalid JSON: found %q, %s", wrong, v.wanted())
}

// wanted says what was wanted.
func (v *validator) wanted() string {
	if v.now == afterValue && v.depth == 0 {
		return "wanted the end of the line behind the value"
	}
	return "wanted " + wants[v.now]
}
