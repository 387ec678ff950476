package bounds_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestCheck(t *testing.T) {
	text := func(bytes int) string { return strings.Repeat("x", bytes) }
	for name, test := range map[string]struct {
		msg  proto.Message
		want string
	}{
		"a reason":               {&apipb.AbortJobRequest{Reason: text(4096)}, ""},
		"a long reason":          {&apipb.AbortJobRequest{Reason: text(2 << 20)}, "reason has 2097152 bytes, the limit is 4096 (4 KiB)"},
		"a long reason to drain": {&apipb.DrainNodeRequest{Reason: text(1025)}, "reason has 1025 bytes, the limit is 1024 (1 KiB)"},
		"a long name":            {&apipb.GetOperationRequest{Operation: text(1025)}, "operation has 1025 bytes, the limit is 1024 (1 KiB)"},
		"a long title": {&commandpb.StartOperation{Spec: &statepb.OperationSpec{Title: text(257)}},
			"title has 257 bytes, the limit is 256"},
		"annotations": {&commandpb.StartOperation{Spec: &statepb.OperationSpec{AnnotationsJson: text(10<<10 + 1)}},
			"annotations_json has 10241 bytes, the limit is 10240 (10 KiB)"},
		"a large spec": {&commandpb.StartOperation{Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Shell: text(1 << 20)}}}},
			"spec has 1048584 bytes, the limit is 1048576 (1 MiB)"},
		"a spec with a long command": {&commandpb.StartOperation{Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Shell: text(1 << 19)}}}}, ""},
		"a message within":           {&commandpb.StopJobs{Order: &statepb.StopOrder{Message: text(6000)}}, "message has 6000 bytes, the limit is 5376 (5.2 KiB)"},
		"many tags": {&commandpb.RegisterNode{Node: &statepb.Node{Tags: []string{text(10000), text(10000)}}},
			"tags has 20000 bytes, the limit is 16384 (16 KiB)"},
		"options of a pool": {&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{
			Options: &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewStringValue(text(1 << 16))}}}}}}},
			"options has 65551 bytes, the limit is 65536 (64 KiB)"},
		"changes of options": {&commandpb.UpdateOperation{Changes: []*commandpb.OperationChange{{Options: &commandpb.Changes{
			Values: map[string]*structpb.Value{text(1 << 16): structpb.NewBoolValue(true)}}}}},
			"options has 65548 bytes, the limit is 65536 (64 KiB)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := bounds.Check(test.msg); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	for bytes, want := range map[int64]string{100: "100 bytes", 4096: "4 KiB", 268435456: "256 MiB", 1610612736: "1.5 GiB"} {
		if got := bounds.Text(bytes); got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"short": "short", "exactly 10": "exactly 10", "more than ten": "more th…", "ääääää": "äää…"} {
		if got := bounds.Cut(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestErrorsAreCut has jobs and operations fail with errors of any size.
func TestErrorsAreCut(t *testing.T) {
	long := strings.Repeat("ö", 1<<20)
	deep := &statepb.Error{Code: 7, Message: long}
	for i := range 1000 {
		deep = &statepb.Error{Code: 7, Message: "short", Inner: []*statepb.Error{deep}, Attributes: map[string]string{fmt.Sprint("a", i): long, "b": "kept"}}
	}
	wide := &statepb.Error{Code: 8, Message: long}
	for range 10000 {
		wide.Inner = append(wide.Inner, &statepb.Error{Message: "one of many"})
	}
	for name, err := range map[string]*statepb.Error{"deep": deep, "wide": wide, "long": {Code: 9, Message: long}} {
		for _, limit := range []int{bounds.Error, bounds.Result} {
			cut := bounds.CutError(err, limit)
			if size := proto.Size(cut); size > limit || size < limit/4 {
				t.Errorf("%s: cut to %d bytes, the limit is %d", name, size, limit)
			}
			if cut.GetCode() != err.GetCode() || cut.GetMessage() == "" {
				t.Errorf("%s: cut to %v", name, cut)
			}
			if _, err := proto.Marshal(cut); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if small := (&statepb.Error{Message: "small"}); bounds.CutError(small, bounds.Error) != small {
		t.Error("a small error is copied")
	}
}
