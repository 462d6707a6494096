package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// openAPI makes the document from the routes and forms. Only huma's model and schemas are used: its request
// pipeline would echo offending values, compact users' JSON and add members to every body.
func openAPI(list []route) []byte {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Sagacity", Version: "1",
			Description: "Start saga and TCC transactions, follow them, and look after dead letters.",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", Description: "not needed on loopback in development"},
			},
		},
	}
	for i := range list {
		doc.AddOperation(list[i].operation(registry))
	}
	for name, schema := range registry.Map() {
		if !strings.HasSuffix(name, "Form") {
			schema.AdditionalProperties = true // answers gain members
		}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		panic("api: the OpenAPI document does not encode: " + err.Error())
	}
	return body
}

func (rt *route) operation(registry huma.Registry) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.name, Summary: rt.summary,
		Responses: map[string]*huma.Response{}, Parameters: slices.Clone(rt.params),
	}
	for segment := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			op.Parameters = append(op.Parameters, &huma.Param{In: "path", Name: strings.TrimSuffix(name, "}"), Required: true, Schema: stringSchema()})
		}
	}
	if rt.access != accessPublic {
		op.Security = rt.security()
	}
	if rt.request != nil {
		op.RequestBody = &huma.RequestBody{Required: rt.required, Content: jsonContent(registry, rt.request, "application/json")}
	}
	for _, a := range rt.answers {
		response := &huma.Response{Description: a.text}
		if a.form != nil {
			response.Content = jsonContent(registry, a.form, "application/json")
			if rt.name == "submitTransaction" && a.status == http.StatusAccepted {
				response.Content["application/json"].Schema = &huma.Schema{AnyOf: []*huma.Schema{
					response.Content["application/json"].Schema, registry.Schema(reflect.TypeFor[Transaction](), true, ""),
				}}
			}
		} else if a.status != http.StatusNoContent {
			response.Content = map[string]*huma.MediaType{cmp.Or(rt.media, "text/plain"): {Schema: stringSchema()}}
		}
		for _, p := range a.headers {
			if response.Headers == nil {
				response.Headers = map[string]*huma.Param{}
			}
			response.Headers[p.Name] = &huma.Param{Description: p.Description, Schema: p.Schema}
		}
		op.Responses[strconv.Itoa(a.status)] = response
	}
	rt.addProblems(registry, op)
	return op
}

// addProblems says which problems the route answers with, by status.
func (rt *route) addProblems(registry huma.Registry, op *huma.Operation) {
	all := append(slices.Clone(rt.codes), codeInternal)
	if rt.access != accessPublic {
		all = append(all, codeUnauthenticated, codeForbidden, codeInvalidQuery, codeUnavailable)
	}
	if rt.method != http.MethodGet {
		all = append(all, codeCrossOrigin)
	}
	slices.Sort(all)
	byStatus := map[int][]string{}
	for _, code := range slices.Compact(all) {
		status := infoOf(code).status
		byStatus[status] = append(byStatus[status], "`"+code+"`")
	}
	for status, names := range byStatus {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(names, ", "),
			Content:     jsonContent(registry, reflect.TypeFor[Problem](), "application/problem+json"),
		}
	}
}

func jsonContent(registry huma.Registry, form reflect.Type, mediaType string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mediaType: {Schema: registry.Schema(form, true, "")}}
}
