package state

import (
	"bytes"
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestSecretsEndWithTheirOperation (T3) keeps sealed secrets, as they came, for as long as an operation
// is in progress; then their names remain.
func TestSecretsEndWithTheirOperation(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 4))
	sealed := bytes.Repeat([]byte("sealed"), 2000)
	spec := specOf(1)
	spec.Vault = &statepb.Vault{Names: []string{"PASSWORD", "TOKEN"}, Sealed: sealed}
	j.run("op", spec)
	j.start("op", "j1")
	if got := j.operation("op").GetSpec().GetVault().GetSealed(); !bytes.Equal(got, sealed) {
		t.Fatalf("while it runs: %q", got)
	}
	taken := j.state.quotas.whole.all
	j.finish("op", "completed", "j1")
	if content := contentOf(t, j.state); !bytes.Contains(content, sealed) {
		t.Error("they are gone before the operation has ended")
	}
	j.must(&commandpb.AdvanceOperation{OperationId: "op", Term: 1, From: "completing", To: "completed"})
	vault := j.operation("op").GetSpec().GetVault()
	if len(vault.GetSealed()) > 0 || strings.Join(vault.GetNames(), " ") != "PASSWORD TOKEN" {
		t.Errorf("after the end: %v", vault)
	}
	if content := contentOf(t, j.state); bytes.Contains(content, sealed[:12]) {
		t.Error("after the end the state has secrets")
	}
	if left := j.state.quotas.whole.all; left > taken-10000 {
		t.Errorf("%d bytes are counted after the end, %d before", left, taken)
	}
}

func TestVaultsThatAreRefused(t *testing.T) {
	names := func(n int) (list []string) {
		for i := range n {
			list = append(list, "N"+strings.Repeat("x", i))
		}
		return list
	}
	tests := map[string]struct {
		vault *statepb.Vault
		want  string
	}{
		"not sealed":   {&statepb.Vault{Names: names(1)}, "0 sealed bytes"},
		"too large":    {&statepb.Vault{Names: names(1), Sealed: make([]byte, maxSealedBytes+1)}, "sealed bytes, it must have 1 to"},
		"no names":     {&statepb.Vault{Sealed: []byte("x")}, "0 secrets, it must have 1 to 64"},
		"too many":     {&statepb.Vault{Names: names(65), Sealed: []byte("x")}, "65 secrets"},
		"out of order": {&statepb.Vault{Names: []string{"B", "A"}, Sealed: []byte("x")}, `name "A"`},
		"twice":        {&statepb.Vault{Names: []string{"A", "A"}, Sealed: []byte("x")}, `name "A"`},
		"a long name":  {&statepb.Vault{Names: []string{strings.Repeat("A", 129)}, Sealed: []byte("x")}, "too long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			spec := specOf(1)
			spec.Vault = test.vault
			result, _ := j.apply(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: spec})
			if said := result.GetRefusal().GetMessage(); !strings.Contains(said, "secure_vault: ") || !strings.Contains(said, test.want) {
				t.Errorf("refused with %q, want %q", said, test.want)
			}
		})
	}
}
