package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dtm-labs/dtm/client/dtmcli"
	"github.com/dtm-labs/dtm/client/dtmcli/dtmimp"
	"github.com/dtm-labs/logger"
	"github.com/go-resty/resty/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the participants

	"github.com/sagacity-tx/sagacity/bench/process"
)

// dtm is one DTM server in one of its settings, and its participants in this process.
type dtm struct {
	setting int // UpdateBranchSync
	api     string
	busi    string // where the participants are
	server  *process.Child
	http    *http.Server
	db      *sql.DB
}

func (d *dtm) name() string   { return fmt.Sprintf("DTM, UpdateBranchSync %d", d.setting) }
func (d *dtm) does(work) bool { return true }

// startDTM starts a server of DTM on a database of its own.
func startDTM(ctx context.Context, st *stand, setting int) (_ *dtm, err error) {
	d := &dtm{setting: setting}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	name := "dtm" + strconv.Itoa(setting)
	dsn, err := st.cluster.CreateDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := runSQL(ctx, dsn, filepath.Join(st.dtmSource, "sqls", "dtmsvr.storage.postgres.sql")); err != nil {
		return nil, err
	}
	if setting == 1 { // both settings share the participants' database
		if err := runSQL(ctx, st.accounts, filepath.Join(st.dtmSource, "sqls", "dtmcli.barrier.postgres.sql")); err != nil {
			return nil, err
		}
	}
	if err := d.startServer(ctx, st, dsn, name); err != nil {
		return nil, err
	}
	return d, d.startParticipants(st)
}

func (d *dtm) startServer(ctx context.Context, st *stand, dsn, name string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	var ports [3]string
	for i := range ports {
		address, err := process.FreeAddress(ctx)
		if err != nil {
			return err
		}
		_, ports[i], _ = net.SplitHostPort(address)
	}
	file := filepath.Join(st.dir, name+".yml")
	c := cfg.ConnConfig
	err = os.WriteFile(file, fmt.Appendf(nil, `
Store: {Driver: postgres, Host: %q, Port: %d, User: %q, Password: %q, Db: %q, Schema: public, MaxOpenConns: %d, MaxIdleConns: %d}
HttpPort: %s
GrpcPort: %s
JsonRpcPort: %s
LogLevel: error
UpdateBranchSync: %d
`, c.Host, c.Port, c.User, c.Password, c.Database, dtmConns, dtmConns, ports[0], ports[1], ports[2], d.setting), 0o600)
	if err != nil {
		return err
	}
	if d.server, err = process.Start(st.dtmProgram, nil, "-c", file); err != nil {
		return err
	}
	d.api = "http://127.0.0.1:" + ports[0] + "/api/dtmsvr"
	return d.server.AwaitHTTP(ctx, d.api+"/newGid")
}

// startParticipants serves the steps over HTTP, each in the barrier that DTM's client has.
func (d *dtm) startParticipants(st *stand) error {
	_ = logger.FatalIfError // the package is set up below
	logger.InitLog("error")
	dtmcli.SetCurrentDBType(dtmcli.DBTypePostgres)
	d.client().SetTransport(&http.Transport{MaxIdleConnsPerHost: st.clientsMax}) // its default keeps few connections
	var err error
	if d.db, err = sql.Open("pgx", st.accounts); err != nil {
		return err
	}
	d.db.SetMaxOpenConns(participantConns)
	d.db.SetMaxIdleConns(participantConns)
	mux := http.NewServeMux()
	mux.HandleFunc("/noop", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"dtm_result":"SUCCESS"}`)
	})
	for path, step := range map[string]struct {
		sql  string
		sign int64
	}{
		"/move": {sqlMove, 1}, "/unmove": {sqlMove, -1}, "/hold": {sqlHold, 1}, "/use": {sqlUse, 1}, "/release": {sqlRelease, 1},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { d.step(w, r, step.sql, step.sign) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.busi = "http://" + l.Addr().String()
	d.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = d.http.Serve(l) }()
	return nil
}

func (d *dtm) client() *resty.Client { return dtmimp.GetRestyClient2(0) }

// step runs one branch.
func (d *dtm) step(w http.ResponseWriter, r *http.Request, statement string, sign int64) {
	var m move
	err := json.NewDecoder(r.Body).Decode(&m)
	if err == nil && m.Refuse && r.URL.Path == "/move" {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"dtm_result":"FAILURE"}`)
		return
	}
	var b *dtmcli.BranchBarrier
	if err == nil {
		b, err = dtmcli.BarrierFromQuery(r.URL.Query())
	}
	if err == nil {
		err = b.CallWithDB(d.db, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(r.Context(), statement, m.Account, sign*m.Cents)
			return err
		})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, `{"dtm_result":"SUCCESS"}`)
}

func (d *dtm) do(_ context.Context, w work, n int64) error {
	m := movesOf(w, n)
	gid := uuid.NewString()
	if w == workTCC {
		return dtmcli.TccGlobalTransaction2(d.api, gid, func(t *dtmcli.Tcc) { t.WaitResult = true }, func(t *dtmcli.Tcc) (*resty.Response, error) {
			for step := range m {
				if resp, err := t.CallBranch(m[step], d.busi+"/hold", d.busi+"/use", d.busi+"/release"); err != nil {
					return resp, err
				}
			}
			return nil, nil
		})
	}
	action, compensate := d.busi+"/move", d.busi+"/unmove"
	if w == workNoop {
		action, compensate = d.busi+"/noop", d.busi+"/noop"
	}
	s := dtmcli.NewSaga(d.api, gid)
	for step := range m {
		s.Add(action, compensate, m[step])
	}
	s.WaitResult = true
	err := s.Submit()
	if w == workFailing {
		if err == nil || !strings.Contains(err.Error(), dtmcli.ResultFailure) {
			return wrongEnd(w, n, fmt.Sprint(err))
		}
		return nil
	}
	return err
}

func (d *dtm) stop() error {
	var errs []error
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	if d.http != nil {
		errs = append(errs, d.http.Close())
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	return errors.Join(errs...)
}

// dtmDir returns where the module of DTM is: its tables are made by its own statements.
func dtmDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/dtm-labs/dtm").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of DTM: %w; run this in bench/peers", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func runSQL(ctx context.Context, dsn, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, string(text)); err != nil {
		return fmt.Errorf("run %s: %w", file, err)
	}
	return nil
}
