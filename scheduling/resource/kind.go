package resource

import "fmt"

// Kind names one resource. The order of kinds breaks ties between dominant
// resources (F.1.1).
type Kind uint8

// The kinds of resources, in the order of F.1.1.
const (
	UserSlots Kind = iota
	CPU
	GPU
	Memory
	Network

	// Count is the number of kinds.
	Count = 5
)

var kindNames = [Count]string{"user_slots", "cpu", "gpu", "memory", "network"}

// String returns the name of the kind in settings, such as "user_slots".
func (k Kind) String() string {
	if int(k) >= Count {
		return fmt.Sprintf("resource.Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// ParseKind returns the kind with this name.
func ParseKind(name string) (Kind, error) {
	for k, known := range kindNames {
		if known == name {
			return Kind(k), nil
		}
	}
	return 0, unknownKind(name)
}

func unknownKind(name string) error {
	return fmt.Errorf("unknown resource %q: use one of user_slots, cpu, gpu, memory, network", name)
}
