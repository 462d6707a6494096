# The image of both programs: coordinator and participant. It builds with BuildKit and with the older builder.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t sagacity .
#   docker run --rm sagacity coordinator version
#
# The images it starts from can be replaced, for a registry of your own or a machine that reaches none.
ARG GO_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM ${GO_IMAGE} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false
# How go reaches modules: empty is its own default. HTTP_PROXY, HTTPS_PROXY and NO_PROXY are passed by the builder.
ARG GOPROXY
ARG GOSUMDB
# Certificates of a proxy that opens TLS go into deploy/ca, as PEM files.
COPY deploy/ca /usr/local/share/build-ca
ENV SSL_CERT_DIR=/etc/ssl/certs:/usr/local/share/build-ca
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./cmd/coordinator ./cmd/participant

FROM ${BASE_IMAGE}
COPY --from=build /out/coordinator /out/participant /usr/local/bin/
# A number, so that an engine can tell that it is not root.
USER 65532:65532
CMD ["coordinator", "serve"]
