package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"
)

// pace copies stdin to stdout, at the given number of bytes a second.
func pace(args []string) error {
	rate, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return err
	}
	began, passed := time.Now(), 0
	block := make([]byte, 16<<10)
	for {
		n, err := os.Stdin.Read(block)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(block[:n]); err != nil {
			return err
		}
		passed += n
		time.Sleep(time.Until(began.Add(time.Duration(float64(passed) / rate * float64(time.Second)))))
	}
}
