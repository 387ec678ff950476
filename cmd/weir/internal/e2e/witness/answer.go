package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"weir/api/discovery"
	"weir/cmd/poll"
)

// answer is an instance of a service with a port. Under /ready it reports that it is healthy
// while a file with the suffix .up exists, and that it is warming up otherwise. It passes
// the content of a file with the suffix .say to Say, and writes what it hears of its peers to a
// folder. SIGTERM ends it.
func answer(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, late := context.WithTimeout(ctx, patience)
	defer late()
	name := nameIn(args[0])
	client, err := discovery.Open()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("WEIR_HOST"), os.Getenv("WEIR_PORT_0")))
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(name + ".up"); err != nil {
			http.Error(w, "warming up", http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	go func() { _ = listen(ctx, client, name) }()
	return repeat(ctx, client, name+".say")
}

// repeat passes the content of a file to Say whenever it changes.
func repeat(ctx context.Context, client *discovery.Client, file string) error {
	said := ""
	err := poll.Every(ctx, 10*time.Millisecond, func() (bool, error) {
		data, err := os.ReadFile(file)
		if err != nil || string(data) == said || !strings.HasSuffix(string(data), "\n") {
			return false, nil
		}
		said = string(data)
		return false, client.Say(ctx, strings.TrimSpace(said))
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
