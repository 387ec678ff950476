package devcluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckReachable returns an error if jobs cannot come to a file or folder: jobs of a cluster that root
// runs are users of their own, and a folder above it may keep them out.
func CheckReachable(paths ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
			info, err := os.Stat(folder)
			if err != nil {
				return fmt.Errorf("jobs have to reach %s: %w", path, err)
			}
			if info.Mode()&0o001 == 0 {
				return fmt.Errorf("jobs run as users of their own and cannot reach %s: folder %s is closed to other users: move it elsewhere, or run chmod o+x %s", path, folder, folder)
			}
			if folder == filepath.Dir(folder) {
				break
			}
		}
	}
	return nil
}
