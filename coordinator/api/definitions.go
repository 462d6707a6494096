package api

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

func definitionPath(name string, version int) string {
	return "/v1/definitions/" + name + "/" + strconv.Itoa(version)
}

func (r *renderer) definition(d *coordinator.RegisteredDefinition) Definition {
	self := definitionPath(d.Name, d.Version)
	form := Definition{
		Name: d.Name, Version: d.Version, State: string(d.State), SHA256: hex.EncodeToString(d.SHA256[:]), CreatedAt: d.CreatedAt,
		Links: Links{"self": self},
	}
	if d.State == coordinator.DefinitionActive {
		form.Links["drain"] = self + "/drain"
	}
	if d.Definition != nil {
		form.Definition = r.verbatim(d.Definition.JSON())
	}
	return form
}

// pathDefinition reads the name and version of the path.
func (c *call) pathDefinition() (saga.DefinitionRef, error) {
	ref, err := saga.ParseDefinitionRef("definition", c.r.PathValue("name")+"@"+c.r.PathValue("version"))
	return ref, err
}

// registerDefinition makes a definition known by its name and version: 201, or 200 if it is already.
func (h *Handler) registerDefinition(c *call) error {
	body, err := c.body(saga.SubmissionBytesMax)
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	d, created, err := h.cfg.Coordinator.RegisterDefinition(ctx, coordinator.RegisterParams{Actor: c.id.Actor, Body: body})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.log.Info("a definition is registered", "definition", d.Name, "version", d.Version, "actor", c.id.Actor)
	}
	r := newRenderer()
	form := r.definition(&d)
	c.w.Header().Set("Location", form.Links["self"])
	return c.send(status, r, form)
}

// listDefinitions answers with the registered definitions.
func (h *Handler) listDefinitions(c *call) error {
	name, err := c.queryName("name")
	if err != nil {
		return err
	}
	list, err := h.cfg.Coordinator.Definitions(c.r.Context(), name)
	if err != nil {
		return err
	}
	r := newRenderer()
	form := Definitions{Definitions: []Definition{}}
	for i := range list {
		form.Definitions = append(form.Definitions, r.definition(&list[i]))
	}
	return c.send(http.StatusOK, r, form)
}

// getDefinition answers with a registered definition.
func (h *Handler) getDefinition(c *call) error {
	ref, err := c.pathDefinition()
	if err != nil {
		return err
	}
	d, err := h.cfg.Coordinator.DefinitionByName(c.r.Context(), ref.Name, ref.Version)
	if err != nil {
		return err
	}
	r := newRenderer()
	return c.send(http.StatusOK, r, r.definition(&d))
}

// drainDefinition refuses new transactions of a registered definition.
func (h *Handler) drainDefinition(c *call) error {
	ref, err := c.pathDefinition()
	if err != nil {
		return err
	}
	reason, err := requireReason(c.reason("drain"))
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	p := coordinator.DrainParams{Actor: c.id.Actor, Name: ref.Name, Version: ref.Version, Reason: reason}
	d, err := h.cfg.Coordinator.DrainDefinition(ctx, p)
	if err != nil {
		return err
	}
	c.log.Info("a definition is drained", "definition", d.Name, "version", d.Version, "actor", c.id.Actor)
	r := newRenderer()
	return c.send(http.StatusOK, r, r.definition(&d))
}
