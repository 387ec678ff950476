package statistics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
)

// ErrUnknownNumber is returned for packed values with a number that this version does not
// know: a newer version packed them.
var ErrUnknownNumber = errors.New("unknown statistic number")

// Values are the measurements of one job. The zero value has none.
type Values struct {
	known   [len(byNumber)]bool
	amounts [len(byNumber)]int64
	// others holds the values whose names have no number.
	others map[string]int64
}

// Put sets the value of a name.
func (v *Values) Put(name string, amount int64) {
	number, ok := numbers[name]
	if ok {
		v.known[number], v.amounts[number] = true, amount
		return
	}
	if v.others == nil {
		v.others = make(map[string]int64)
	}
	v.others[name] = amount
}

// Get returns the value of a name, and whether there is one.
func (v *Values) Get(name string) (amount int64, ok bool) {
	if number, ok := numbers[name]; ok {
		return v.amounts[number], v.known[number]
	}
	amount, ok = v.others[name]
	return amount, ok
}

// Delete removes the value of a name.
func (v *Values) Delete(name string) {
	if number, ok := numbers[name]; ok {
		v.known[number], v.amounts[number] = false, 0
	}
	delete(v.others, name)
}

// Pack returns the values: those with numbers as bytes, the others by name. The bytes are pairs of
// varints in ascending order of number: the difference to the number before (for the first number,
// the difference to -1), and the value, zigzag-encoded.
func (v *Values) Pack() (packed []byte, others map[string]int64) {
	const usual = 128
	packed = make([]byte, 0, usual)
	last := -1
	for number, known := range v.known {
		if known {
			packed = binary.AppendUvarint(packed, uint64(number-last))
			packed = binary.AppendVarint(packed, v.amounts[number])
			last = number
		}
	}
	return packed, v.others
}

// Check returns an error if packed values are invalid.
func Check(packed []byte) error {
	return each(packed, func(int, int64) bool { return true })
}

// Unpack returns packed values by name, together with the values in `others`.
func Unpack(packed []byte, others map[string]int64) (map[string]int64, error) {
	if len(packed) == 0 && len(others) == 0 {
		return nil, nil
	}
	// A pair is at least two bytes.
	values := make(map[string]int64, len(packed)/2+len(others))
	err := each(packed, func(number int, amount int64) bool {
		values[byNumber[number].Name] = amount
		return true
	})
	if err != nil {
		return nil, err
	}
	maps.Copy(values, others)
	return values, nil
}

// Find returns one of the packed values, and whether it is there. A value after invalid data is not
// found.
func Find(packed []byte, name string) (amount int64, ok bool) {
	want, known := numbers[name]
	if !known {
		return 0, false
	}
	// Errors after the value do not matter.
	_ = each(packed, func(number int, found int64) bool {
		if number == want {
			amount, ok = found, true
		}
		return number < want
	})
	return amount, ok
}

// each passes every packed value to the function `with`, until it returns false. The error says
// what is invalid.
func each(packed []byte, with func(number int, amount int64) bool) error {
	number := -1
	for len(packed) > 0 {
		gap, n := binary.Uvarint(packed)
		if n <= 0 || gap == 0 {
			return fmt.Errorf("read packed statistics: expected a statistic number after %d", number)
		}
		if gap >= uint64(len(byNumber)-number) {
			return fmt.Errorf("read packed statistics: %w: %d more than %d, but the greatest is %d", ErrUnknownNumber, gap, number, len(byNumber)-1)
		}
		number += int(gap)
		amount, m := binary.Varint(packed[n:])
		if m <= 0 {
			return fmt.Errorf("read packed statistics: expected a value of %s", byNumber[number].Name)
		}
		if packed = packed[n+m:]; !with(number, amount) {
			return nil
		}
	}
	return nil
}
