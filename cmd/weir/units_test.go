package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnitsEndForGood has systemd start again what may start then, and nothing else.
func TestUnitsEndForGood(t *testing.T) {
	for unit, want := range map[string][]int{
		"weir-server.service": {exitUsage, exitDamaged, exitRemoved, exitForeignData, exitDiverged},
		"weir-agent.service":  {exitUsage, exitDamaged, exitForeignData},
	} {
		t.Run(unit, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", unit))
			if err != nil {
				t.Fatal(err)
			}
			line := "RestartPreventExitStatus=" + strings.Trim(fmt.Sprint(want), "[]")
			if lines := strings.Split(string(text), "\n"); !slices.Contains(lines, "Restart=on-failure") || !slices.Contains(lines, line) {
				t.Errorf("want Restart=on-failure and %s in\n%s", line, text)
			}
		})
	}
}
