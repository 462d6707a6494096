package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
)

// dbosSide runs the three steps as a workflow in this process, called over HTTP like the others.
type dbosSide struct {
	ctx    dbos.Context
	url    string
	server *http.Server
	client *http.Client
}

func (d *dbosSide) name() string     { return "DBOS Transact Go" }
func (d *dbosSide) does(w work) bool { return w == workNoop }

func threeSteps(ctx dbos.Context, n string) (string, error) {
	for range steps {
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return n, nil }); err != nil {
			return "", err
		}
	}
	return n, nil
}

func startDBOS(ctx context.Context, st *stand) (_ *dbosSide, err error) {
	dsn, err := st.cluster.CreateDatabase(ctx, "dbos")
	if err != nil {
		return nil, err
	}
	d := &dbosSide{}
	d.ctx, err = dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "peers", DatabaseURL: dsn, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(d.ctx, threeSteps)
	if err := dbos.Launch(d.ctx); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.url = "http://" + l.Addr().String()
	d.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: st.clientsMax}}
	d.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := dbos.RunWorkflow(d.ctx, threeSteps, uuid.NewString())
		if err == nil {
			_, err = h.GetResult()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	go func() { _ = d.server.Serve(l) }()
	return d, nil
}

func (d *dbosSide) do(ctx context.Context, w work, n int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return wrongEnd(w, n, string(text))
	}
	return nil
}

func (d *dbosSide) stop() error {
	err := d.server.Close()
	dbos.Shutdown(d.ctx, 10*time.Second)
	return err
}
