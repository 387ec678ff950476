package records

import (
	"encoding/json"
	"testing"
)

// valid says whether text is one value, told in two parts.
func valid(text []byte, cut int) bool {
	var v validator
	return v.take(text[:cut]) < 0 && v.take(text[cut:]) < 0 && v.complete()
}

func TestValidator(t *testing.T) {
	tests := map[string]bool{
		`{}`: true, `[]`: true, ` [ ] `: true, `{"a":{"b":[]},"c":[[],{}]}`: true, "\t{ \"a\" : 1 ,\r\"b\":2 } ": true,
		`"\"\\\/\b\f\n\r\t\u00aF"`: true, `"é"`: true, "\"\xff\"": true, `""`: true,
		`0`: true, `-0`: true, `10`: true, `-1.5`: true, `1e5`: true, `0E-05`: true, `1.25e+3`: true, `[0,1.5,1e5 ]`: true, `{"a":0}`: true,
		`true`: true, `false`: true, `null`: true,
		``: false, ` `: false, `{`: false, `[1,]`: false, `{"a":1,}`: false, `{a:1}`: false, `{"a" 1}`: false, `[1 2]`: false, `{]`: false, `[}`: false,
		`01`: false, `-`: false, `1.`: false, `.5`: false, `1e`: false, `1e+`: false, `+1`: false, `1.5.5`: false, `1e5e5`: false, `1e5.5`: false, `--1`: false,
		`"`: false, `"\x"`: false, `"\u00g0"`: false, "\"\x01\"": false, "\"\x7f\"": true, `'a'`: false,
		`tru`: false, `truee`: false, `nul1`: false, `{} {}`: false, `1 1`: false, `{"a":1}}`: false, `]`: false, `,`: false, `:`: false,
	}
	for text, want := range tests {
		if json.Valid([]byte(text)) != want {
			t.Errorf("%s: encoding/json does not say %v", text, want)
		}
		for cut := range len(text) + 1 {
			if got := valid([]byte(text), cut); got != want {
				t.Errorf("%s, cut at %d: valid %v, want %v", text, cut, got, want)
			}
		}
	}
}

// FuzzValidator holds the validator against encoding/json.
func FuzzValidator(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5e-3,"\u00e9\n",true,false,null,{"b":{}}]}`), uint16(7))
	f.Add([]byte(`[[[[-0.1E+9]]],"x"]`), uint16(3))
	f.Add([]byte(`{"a":1,}`), uint16(0))
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		if got, want := valid(text, min(len(text), int(cut))), json.Valid(text); got != want {
			t.Fatalf("%q, cut at %d: valid %v, want %v", text, cut, got, want)
		}
	})
}
