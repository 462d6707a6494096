package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits of Server. A long poll moves the write timeout for itself.
const (
	headerBytesMax    = 32 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second // of a whole request
	writeTimeout      = time.Minute      // of reading the body and the whole answer: long enough to say that the body was slow
	idleTimeout       = 2 * time.Minute  // between the requests of one connection
)

// Server returns a server for the API with limits on everything that a slow or hostile peer could hold.
// Its Shutdown ends long polls at once.
func Server(addr string, h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.Default()
	}
	s := &http.Server{
		Addr: addr, Handler: h,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if waits, ok := h.(interface{ StopWaiting() }); ok {
		s.RegisterOnShutdown(waits.StopWaiting)
	}
	return s
}
