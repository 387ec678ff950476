package option_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/option"
)

type flow struct {
	Rate *float64 `option:"rate"`
	Kind *string  `option:"kind" values:"none,slow_one"`
}

// even reads itself, and takes even numbers only.
type even struct{ n float64 }

func (e *even) ReadOption(value *option.Value) error {
	if n := value.Number; value.Kind != option.Number || n/2 != float64(int64(n/2)) {
		return errors.New("is not even")
	}
	e.n = value.Number
	return nil
}

func (e *even) WriteOption() any { return e.n }

type settings struct {
	Weight  *float64       `option:"weight" help:"part among siblings"`
	Limit   *int64         `option:"limit" alias:"max_limit,bound"`
	On      *bool          `option:"enable_it"`
	Timeout *time.Duration `option:"timeout"`
	Mode    *string        `option:"mode" values:"fair_share,fifo"`
	Sort    []string       `option:"sort" values:"start_time,weight"`
	Flow    *flow          `option:"flow"`
	Even    *even          `option:"even" kind:"even number"`

	_ option.Elsewhere `option:"speed" elsewhere:"is of wheels: set it there"`
}

func ptr[T any](v T) *T { return &v }

func TestRead(t *testing.T) {
	cases := map[string]struct {
		document map[string]any
		want     settings
	}{
		"nothing":             {nil, settings{}},
		"each kind":           {map[string]any{"weight": 2.5, "limit": 3.0, "enable_it": true, "timeout": "1m30s"}, settings{Weight: ptr(2.5), Limit: ptr[int64](3), On: ptr(true), Timeout: ptr(90 * time.Second)}},
		"alias":               {map[string]any{"bound": 3.0}, settings{Limit: ptr[int64](3)}},
		"minus is underscore": {map[string]any{"enable-it": false, "mode": "fair-share"}, settings{On: ptr(false), Mode: ptr("fair_share")}},
		"list":                {map[string]any{"sort": []any{"weight", "start-time"}}, settings{Sort: []string{"weight", "start_time"}}},
		"group":               {map[string]any{"flow": map[string]any{"kind": "slow-one"}}, settings{Flow: &flow{Kind: ptr("slow_one")}}},
		"null":                {map[string]any{"weight": nil}, settings{}},
		"reads itself":        {map[string]any{"even": 4.0}, settings{Even: &even{4}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got settings
			if err := option.Read(&got, tc.document); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestReadFaults(t *testing.T) {
	cases := map[string]struct {
		document map[string]any
		want     string
	}{
		"unknown and like one":    {map[string]any{"wieght": 1.0}, "wieght: unknown option; did you mean weight?"},
		"of something else":       {map[string]any{"speed": 1.0}, "speed: is of wheels: set it there"},
		"unknown":                 {map[string]any{"zzzzzzzz": 1.0}, "zzzzzzzz: unknown option: use one of weight, limit, enable_it"},
		"unknown in a group":      {map[string]any{"flow": map[string]any{"rat": 1.0}}, "flow/rat: unknown option; did you mean rate?"},
		"twice":                   {map[string]any{"limit": 1.0, "max_limit": 1.0}, "max_limit: is the same option as limit, which is also set"},
		"text for a number":       {map[string]any{"weight": "much"}, `weight: is the text "much", not a number`},
		"fraction":                {map[string]any{"limit": 1.5}, "limit: 1.5 is not a whole number"},
		"number for a bool":       {map[string]any{"enable_it": 1.0}, "enable_it: is the number 1, not true or false"},
		"number for a time":       {map[string]any{"timeout": 30.0}, "timeout: is the number 30, not a time: write it with a unit"},
		"negative time":           {map[string]any{"timeout": "-1s"}, "timeout: -1s is negative"},
		"no value of the set":     {map[string]any{"mode": "lifo"}, `mode: "lifo" is not one of fair_share, fifo`},
		"no list":                 {map[string]any{"sort": "weight"}, "not a list"},
		"no item of the set":      {map[string]any{"sort": []any{"weight", "age"}}, `sort[1]: "age" is not one of`},
		"no group":                {map[string]any{"flow": 1.0}, "flow: is the number 1, not an object of options"},
		"what reads itself":       {map[string]any{"even": 3.0}, "even: is not even"},
		"several, sorted by path": {map[string]any{"weight": "x", "limit": 0.5}, "limit: 0.5 is not a whole number; weight: is the text"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := option.Read(&settings{}, tc.document)
			var faults *option.Error
			if !errors.As(err, &faults) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestPut(t *testing.T) {
	base := func() map[string]any {
		return map[string]any{"weight": 1.0, "flow": map[string]any{"rate": 2.0}}
	}
	cases := map[string]struct {
		path    string
		value   any
		want    map[string]any
		wantErr string
	}{
		"a value":               {path: "limit", value: 3.0, want: map[string]any{"weight": 1.0, "limit": 3.0, "flow": map[string]any{"rate": 2.0}}},
		"by its alias":          {path: "max-limit", value: 3.0, want: map[string]any{"weight": 1.0, "limit": 3.0, "flow": map[string]any{"rate": 2.0}}},
		"in a group":            {path: "flow/kind", value: "none", want: map[string]any{"weight": 1.0, "flow": map[string]any{"rate": 2.0, "kind": "none"}}},
		"with dots":             {path: "flow.rate", value: 3.0, want: map[string]any{"weight": 1.0, "flow": map[string]any{"rate": 3.0}}},
		"away":                  {path: "weight", want: map[string]any{"flow": map[string]any{"rate": 2.0}}},
		"the last of its group": {path: "flow/rate", want: map[string]any{"weight": 1.0}},
		"into what reads itself": {path: "even/deep/deeper", value: 1.0,
			want: map[string]any{"weight": 1.0, "flow": map[string]any{"rate": 2.0}, "even": map[string]any{"deep": map[string]any{"deeper": 1.0}}}},
		"with - in what reads itself": {path: "even/deep-one", value: 1.0,
			want: map[string]any{"weight": 1.0, "flow": map[string]any{"rate": 2.0}, "even": map[string]any{"deep_one": 1.0}}},
		"unknown":        {path: "flow/rat", value: 1.0, wantErr: "flow/rat: unknown option; did you mean rate?"},
		"of another":     {path: "speed", wantErr: "speed: is of wheels: set it there"},
		"below a number": {path: "weight/x", value: 1.0, wantErr: "weight: is not an object, so x cannot be set in it"},
		"nothing":        {path: "/", value: 1.0, wantErr: "no option is named"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := base()
			err := option.Put(got, settings{}, tc.path, tc.value)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestWriteIsReadBack draws settings, writes them and reads them back.
func TestWriteIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
		want := settings{}
		if maybe("weight") {
			want.Weight = ptr(rapid.Float64Range(-1e9, 1e9).Draw(t, "w"))
		}
		if maybe("limit") {
			want.Limit = ptr(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "l"))
		}
		if maybe("timeout") {
			want.Timeout = ptr(time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "d")))
		}
		if maybe("sort") {
			want.Sort = rapid.SliceOf(rapid.SampledFrom([]string{"start_time", "weight"})).Draw(t, "s")
		}
		if maybe("flow") {
			want.Flow = &flow{Rate: ptr(1.5)}
		}
		var got settings
		if err := option.Read(&got, option.Write(want)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(option.Write(got), option.Write(want)) {
			t.Fatalf("%v is read back as %v", option.Write(want), option.Write(got))
		}
	})
}

func TestFields(t *testing.T) {
	var paths []string
	for _, f := range option.Fields(settings{}) {
		paths = append(paths, f.Path+":"+f.Kind)
	}
	want := "weight:number limit:integer enable_it:bool timeout:duration mode:text sort:list flow/rate:number flow/kind:text even:even number"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("fields %s\nwant   %s", got, want)
	}
}

// bounded are options with bounds and defaults, in groups too.
type bounded struct {
	Size  *int64              `option:"size" kind:"size" min:"1KiB" max:"1GiB" default:"2KiB"`
	Part  *float64            `option:"part" above:"0" max:"1" default:"0.5"`
	Wait  *time.Duration      `option:"wait" min:"1s" max:"1h" default:"90s"`
	Name  *string             `option:"name" max:"3" unit:"bytes"`
	Count *int64              `option:"count" min:"0" required:"how many?"`
	Inner *bounded            `option:"inner"`
	Each  []*bounded          `option:"each" short:"name" max:"2" unit:"of them"`
	By    map[string]*bounded `option:"by" null:"empty"`
}

// TestBounds reads values at their bounds and beyond, with their places.
func TestBounds(t *testing.T) {
	text := func(s string) *option.Value {
		return &option.Value{Kind: option.Text, Text: s, At: option.Position{Line: 2, Column: 3}}
	}
	for name, test := range map[string]struct {
		value *option.Value
		want  string
	}{
		"size":     {text("1000B"), `line 2, column 3: size: "1000B" is too little: the minimum is 1KiB`},
		"part":     {option.Float(0, option.Position{}), "part: 0 is not a number above 0 and at most 1"},
		"wait":     {text("2h"), "line 2, column 3: wait: 2h is too long: the limit is 1h"},
		"name":     {text("long"), "line 2, column 3: name: it has 4 bytes, the limit is 3"},
		"count":    {option.Integer(-1, option.Position{}), "count: -1 is not a number of at least 0"},
		"inner":    {&option.Value{Kind: option.Object}, "inner.count: it is missing: how many?"},
		"each":     {&option.Value{Kind: option.List, Items: []*option.Value{text("a")}}, "line 2, column 3: each[0].count: it is missing: how many?"},
		"by":       {&option.Value{Kind: option.Object, Fields: []option.Entry{{Name: "x-y", Value: &option.Value{}}}}, "by.x-y.count: it is missing: how many?"},
		"in-order": {text("x"), "unknown option: use one of size, part, wait, name, count, inner, each, by"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := []option.Entry{{Name: name, Value: test.value}}
			if name != "count" {
				fields = append(fields, option.Entry{Name: "count", Value: option.Integer(0, option.Position{})})
			}
			r := option.Reading{Separator: "."}
			r.Options(&bounded{}, &option.Value{Kind: option.Object, Fields: fields}, "")
			if len(r.Faults) != 1 || !strings.Contains(r.Faults[0].String(), test.want) {
				t.Errorf("faults %v, want %q", r.Faults, test.want)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	inner := &bounded{Part: ptr(0.25)}
	got := bounded{Wait: ptr(time.Minute), Inner: inner, Each: []*bounded{inner}}
	option.Complete(&got)
	want := map[string]any{"size": 2048.0, "part": 0.25, "wait": "1m30s"}
	if diff := option.Write(got); !reflect.DeepEqual(diff, map[string]any{"size": 2048.0, "part": 0.5, "wait": "1m", "inner": want, "each": []any{want}}) {
		t.Errorf("completed: %v", diff)
	}
	if inner.Size != nil {
		t.Error("what a group was has changed")
	}
}

func TestAdoptFindsPlaces(t *testing.T) {
	r, of := option.Reading{Separator: "."}, &bounded{}
	at := option.Position{Line: 7, Column: 1}
	r.Options(of, &option.Value{Kind: option.Object, Fields: []option.Entry{
		{Name: "count", Value: option.Integer(0, option.Position{})},
		{Name: "inner", Value: &option.Value{Kind: option.Object, Fields: []option.Entry{{Name: "count", Value: option.Integer(1, at)}}}},
	}}, "top")
	r.Adopt(of, option.NewError([]option.Fault{{Path: "inner/count", Problem: "is odd"}}))
	if len(r.Faults) != 1 || r.Faults[0].String() != "line 7, column 1: top.inner.count: is odd" {
		t.Errorf("faults %v", r.Faults)
	}
}
