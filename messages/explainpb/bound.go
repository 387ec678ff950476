package explainpb

import "google.golang.org/protobuf/proto"

// The most bytes of an explanation, of its tasks and of its facts each: many times what a person
// reads.
const (
	maxTasks = 512 << 10
	maxFacts = 512 << 10
)

// elementBytes is what an element of a list takes besides itself: its tag and its length.
const elementBytes = 5

// Bound cuts the lists of tasks and facts of an explanation behind the last one that fits, and counts
// those that it leaves out. The first fact, the verdict, always stays.
func Bound(x *Explanation) {
	tasks, facts := fitting(x.GetTasks(), maxTasks), max(fitting(x.GetFacts(), maxFacts), min(len(x.GetFacts()), 1))
	x.TasksLeftOut += int32(len(x.GetTasks()) - tasks)
	x.FactsLeftOut += int32(len(x.GetFacts()) - facts)
	x.Tasks, x.Facts = x.GetTasks()[:tasks:tasks], x.GetFacts()[:facts:facts]
}

// fitting returns how many of a list have at most limit bytes together.
func fitting[M proto.Message](list []M, limit int) int {
	for i, m := range list {
		if limit -= proto.Size(m) + elementBytes; limit < 0 {
			return i
		}
	}
	return len(list)
}
