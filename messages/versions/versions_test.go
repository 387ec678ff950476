package versions

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/statistics"
)

// release writes the names of this tree, once, when it is released: see make descriptors.
var release = flag.String("release", "", "version of weir whose names are to be kept")

// TestReleased (V2): whatever was not in a released version is in a row of the table that is since a later
// version of the cluster, and what was in one is still there with the same number and type.
func TestReleased(t *testing.T) {
	if *release != "" {
		keep(t, *release)
	}
	now := today()
	kept, err := filepath.Glob("testdata/*.binpb")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no descriptors of a released version: %v", err)
	}
	for _, path := range kept {
		name := strings.TrimSuffix(filepath.Base(path), ".binpb")
		version := versionOf(name)
		if version == 0 {
			t.Errorf("%s: no version of the cluster belongs to weir %s", path, name)
		}
		for _, complaint := range compare(read(t, name), now, version, rows) {
			t.Errorf("since weir %s: %s", name, complaint)
		}
	}
}

// TestReleasedIsFailed (V2): what is newer than a released version and in no row is found, and so is what is gone.
func TestReleasedIsFailed(t *testing.T) {
	then := map[string]string{"a.M": "message", "a.M.x": "1 int32", "a.M.y": "2 string"}
	for story, test := range map[string]struct {
		now  map[string]string
		rows []Row
		want string
	}{
		"nothing":             {map[string]string{}, nil, ""},
		"a field in no row":   {map[string]string{"a.M.z": "3 string"}, nil, "a.M.z is new"},
		"a message in no row": {map[string]string{"a.N": "message"}, nil, "a.N is new"},
		"a field in a row":    {map[string]string{"a.M.z": "3 string"}, []Row{{Name: "a.M.z", Since: 2}}, ""},
		"a message in a row":  {map[string]string{"a.N": "message", "a.N.x": "1 int32"}, []Row{{Name: "a.N", Since: 2}}, ""},
		"a row of then":       {map[string]string{"a.M.z": "3 string"}, []Row{{Name: "a.M.z", Since: 1}}, "a.M.z is new"},
		"a row for what was":  {map[string]string{}, []Row{{Name: "a.M.y", Since: 2}}, "a.M.y is since version 2 in the table"},
		"another number":      {map[string]string{"a.M.y": "4 string"}, nil, `a.M.y was "2 string" and is "4 string"`},
		"what is gone":        {map[string]string{"a.M.y": ""}, nil, `a.M.y was "2 string" and is ""`},
	} {
		t.Run(story, func(t *testing.T) {
			now := map[string]string{"a.M": "message", "a.M.x": "1 int32", "a.M.y": "2 string"}
			for name, is := range test.now {
				now[name] = is
			}
			got := strings.Join(compare(then, now, 1, test.rows), "; ")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestRows (V2): each row is whole, names something that exists, and is held by those who write it.
func TestRows(t *testing.T) {
	now := today()
	seen := map[string]bool{}
	for _, row := range rows {
		switch {
		case seen[row.Name]:
			t.Errorf("%s: twice", row.Name)
		case row.Since <= 1 || row.Since > Current:
			t.Errorf("%s: since version %d, but the newest is %d", row.Name, row.Since, Current)
		case row.Before == "":
			t.Errorf("%s: what happens before is missing", row.Name)
		case strings.HasPrefix(row.Name, optionOf) || strings.HasPrefix(row.Name, statisticNumber):
			t.Errorf("%s: Newer does not look for it in commands yet", row.Name)
		case plain(row.Name) || row.Told:
		case now[row.Name] == "":
			t.Errorf("%s: does not exist", row.Name)
		case !strings.HasPrefix(row.Name, "weir.command.") && !strings.HasPrefix(row.Name, "weir.state."):
			// Propose and Apply hold those.
			t.Errorf("%s: nobody asks for its version before it is written or sent: do so, and say here where", row.Name)
		}
		seen[row.Name] = true
	}
	for version := uint32(Oldest); version <= Current; version++ {
		if programs[version] == "" {
			t.Errorf("no release of weir belongs to version %d", version)
		}
	}
}

// TestNewer (V2): what is new is found wherever it is in a message.
func TestNewer(t *testing.T) {
	defer Plant(
		Row{Name: "weir.command.v1.StartOperation.by_operator", Since: 2}, Row{Name: "weir.state.v1.Resources", Since: 3},
		Row{Name: "weir.state.v1.Tmpfs.path", Since: 2}, Row{Name: "weir.command.v1.Revoke", Since: 4}, Row{Name: "weir.state.v1.Node.host", Since: 9, Told: true},
	)()
	spec := func(tmpfs ...*statepb.Tmpfs) *commandpb.StartOperation {
		return &commandpb.StartOperation{Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{}, {Tmpfs: tmpfs}}}}
	}
	for story, test := range map[string]struct {
		msg  proto.Message
		want string
		of   uint32
	}{
		"nothing":                {&commandpb.StartOperation{OperationId: "o"}, "", 1},
		"a type with nothing":    {&commandpb.EditGroup{Group: "g"}, "", 1},
		"a field":                {&commandpb.StartOperation{ByOperator: true}, "weir.command.v1.StartOperation.by_operator", 2},
		"a field that is inside": {spec(&statepb.Tmpfs{}, &statepb.Tmpfs{Path: "p"}), "weir.state.v1.Tmpfs.path", 2},
		"a field that is unset":  {spec(&statepb.Tmpfs{}), "", 1},
		"a message":              {&commandpb.Revoke{}, "weir.command.v1.Revoke", 4},
		"a message inside":       {&commandpb.RegisterNode{Node: &statepb.Node{Resources: &statepb.Resources{}}}, "weir.state.v1.Resources", 3},
		"what is told anyway":    {&commandpb.RegisterNode{Node: &statepb.Node{Host: "h"}}, "", 1},
		"what raises":            {&commandpb.RaiseVersion{Version: 7}, "", 7},
	} {
		t.Run(story, func(t *testing.T) {
			if got := Newer(test.msg, 1); got != test.want {
				t.Errorf("newer than 1: %q, want %q", got, test.want)
			}
			if got := Of(test.msg); got != test.of {
				t.Errorf("it is of version %d, want %d", got, test.of)
			}
			if got := Newer(test.msg, test.of); got != "" {
				t.Errorf("newer than its own version: %q", got)
			}
		})
	}
}

// TestRange (V2): what a program does not read is told with what does.
func TestRange(t *testing.T) {
	for story, test := range map[string]struct {
		of      Range
		version uint32
		err     error
		want    string
	}{
		"none":               {Program, 0, nil, ""},
		"the oldest":         {Range{1, 3}, 1, nil, ""},
		"the newest":         {Range{1, 3}, 3, nil, ""},
		"newer, and unknown": {Range{1, 3}, 4, ErrNewer, "it needs cluster version 4, but this program (weir 0.2.0) works with cluster versions 1 to 3: start a newer weir, whose `weir version` names cluster version 4"},
		"newer, and known":   {Range{1, 1}, 2, ErrNewer, "works with cluster version 1: start weir 0.2.0"},
		"older":              {Range{2, 3}, 1, ErrOlder, "start weir 0.2.0, and finish the upgrade with it"},
	} {
		t.Run(story, func(t *testing.T) {
			err := test.of.Check(test.version)
			if !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %v: %s", err, test.err, test.want)
			}
		})
	}
}

// compare returns what is wrong with the names and kinds of now, after a release with those of then that was
// of a version of the cluster.
func compare(then, now map[string]string, version uint32, rows []Row) (complaints []string) {
	since := map[string]uint32{}
	for _, row := range rows {
		since[row.Name] = row.Since
	}
	for name := range now {
		if _, was := then[name]; was {
			if since[name] > version {
				complaints = append(complaints, fmt.Sprintf("%s is since version %d in the table, but was there before", name, since[name]))
			}
			continue
		}
		listed := false
		for part := name; part != ""; part = part[:max(strings.LastIndexByte(part, '.'), 0)] {
			listed = listed || since[part] > version
		}
		if !listed {
			complaints = append(complaints, name+" is new: give it a row in the table, since a version that the release did not know")
		}
	}
	for name, was := range then {
		if now[name] != was {
			complaints = append(complaints, fmt.Sprintf("%s was %q and is %q: what was written before must be read for ever", name, was, now[name]))
		}
	}
	slices.Sort(complaints)
	return complaints
}

// collect adds the names of the messages, fields and values of a file, each with its number and type.
func collect(to map[string]string, file *descriptorpb.FileDescriptorProto) {
	enums := func(within string, all []*descriptorpb.EnumDescriptorProto) {
		for _, e := range all {
			to[within+"."+e.GetName()] = "enum"
			for _, v := range e.GetValue() {
				to[within+"."+e.GetName()+"."+v.GetName()] = fmt.Sprint(v.GetNumber())
			}
		}
	}
	var messages func(within string, all []*descriptorpb.DescriptorProto)
	messages = func(within string, all []*descriptorpb.DescriptorProto) {
		for _, m := range all {
			name := within + "." + m.GetName()
			to[name] = "message"
			for _, f := range m.GetField() {
				to[name+"."+f.GetName()] = fmt.Sprint(f.GetNumber(), f.GetLabel(), f.GetType(), f.GetTypeName())
			}
			messages(name, m.GetNestedType())
			enums(name, m.GetEnumType())
		}
	}
	messages(file.GetPackage(), file.GetMessageType())
	enums(file.GetPackage(), file.GetEnumType())
}

// The beginnings of names of what commands have in documents and packed bytes.
const optionOf, statisticNumber = "option of ", "statistic "

// today returns all names of this tree, with what each stands for.
func today() map[string]string {
	now := map[string]string{}
	for _, file := range files {
		collect(now, protodesc.ToFileDescriptorProto(file))
	}
	for name, is := range unwritten() {
		now[name] = is
	}
	return now
}

// unwritten returns the names that no descriptor has: those of options, which are kept as documents, and of
// statistics, which are kept by number.
func unwritten() map[string]string {
	names := map[string]string{}
	for what, options := range map[string]any{"trees": pooltree.TreeOptions{}, "pools": pooltree.PoolOptions{}, "operations": pooltree.OperationOptions{}} {
		for _, f := range option.Table(options) {
			names[optionOf+what+" "+f.Path] = f.Kind
		}
	}
	for number, s := range statistics.All() {
		names[statisticNumber+strconv.Itoa(number)] = s.Name
	}
	return names
}

// read returns the names of a release.
func read(t *testing.T, release string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", release+".binpb"))
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	then := map[string]string{}
	for _, file := range set.GetFile() {
		if slices.ContainsFunc(files, func(f protoreflect.FileDescriptor) bool { return f.Path() == file.GetName() }) {
			collect(then, file)
		}
	}
	if data, err = os.ReadFile(filepath.Join("testdata", release+".names")); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, is, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		then[name] = is
	}
	return then
}

// keep writes the names of this tree that are in no descriptors.
func keep(t *testing.T, release string) {
	t.Helper()
	var names strings.Builder
	all := unwritten()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&names, "%s: %s\n", name, all[name])
	}
	if err := os.WriteFile(filepath.Join("testdata", release+".names"), []byte(names.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// versionOf returns the newest version of the cluster that a release of weir works with; 0 if there is none.
func versionOf(program string) (version uint32) {
	for v, name := range programs {
		if name == program {
			version = max(version, v)
		}
	}
	return version
}

func BenchmarkNewer(b *testing.B) {
	msg := &commandpb.FinishJobs{OperationId: "o", Jobs: []*statepb.FinishedJob{{JobId: "j"}}}
	for b.Loop() {
		if Newer(msg, 1) != "" {
			b.Fatal("something is new")
		}
	}
}
