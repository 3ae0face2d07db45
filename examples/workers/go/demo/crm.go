package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

type customer struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
	City  string `json:"city"`
	shop  string
}

type order struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	Cents    int    `json:"cents"`
	Status   string `json:"status"`
	customer string
}

// crm stands for your database: the customers and orders of two shops. Every question names the shop that asks, and
// gets only that shop's data.
type crm struct {
	customers []customer
	orders    []order
}

func loadCRM(folder string) (*crm, error) {
	c := &crm{}
	err := readCSV(filepath.Join(folder, "customers.csv"), func(row map[string]string) error {
		c.customers = append(c.customers, customer{
			ID: row["id"], Name: row["name"], Email: row["email"], City: row["city"], shop: row["shop"],
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = readCSV(filepath.Join(folder, "orders.csv"), func(row map[string]string) error {
		quantity, err := strconv.Atoi(row["quantity"])
		if err != nil {
			return err
		}
		euro, err := strconv.ParseFloat(row["total_eur"], 64)
		if err != nil {
			return err
		}
		c.orders = append(c.orders, order{
			ID: row["id"], Date: row["date"], Item: row["item"], Quantity: quantity,
			Cents: int(math.Round(euro * 100)), Status: row["status"], customer: row["customer"],
		})
		return nil
	})
	return c, err
}

func (c *crm) findCustomer(shop, email string) *customer {
	for i := range c.customers {
		if one := &c.customers[i]; one.shop == shop && one.Email == email {
			return one
		}
	}
	return nil
}

// closestEmail is the address of this shop's that a mistyped one probably means, or nil.
func (c *crm) closestEmail(shop, email string) *string {
	for i := range c.customers {
		if one := &c.customers[i]; one.shop == shop && isOneLetterOff(one.Email, email) {
			return &one.Email
		}
	}
	return nil
}

// listOrders is oldest first; empty also for a customer that the shop does not have.
func (c *crm) listOrders(shop, email string) []order {
	found := []order{}
	owner := c.findCustomer(shop, email)
	for _, one := range c.orders {
		if owner != nil && one.customer == owner.ID {
			found = append(found, one)
		}
	}
	return found
}

type orderOfCustomer struct {
	Order    order    `json:"order"`
	Customer customer `json:"customer"`
}

func (c *crm) findOrder(shop, id string) *orderOfCustomer {
	for _, one := range c.orders {
		if one.ID != id {
			continue
		}
		for _, owner := range c.customers {
			if owner.ID == one.customer && owner.shop == shop {
				return &orderOfCustomer{one, owner}
			}
		}
	}
	return nil
}

// readCSV gives each line of a file, by the names in its heading.
func readCSV(file string, take func(row map[string]string) error) error {
	opened, err := os.Open(file)
	if err != nil {
		return err
	}
	defer opened.Close()
	lines, err := csv.NewReader(opened).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for number, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		if err := take(row); err != nil {
			return fmt.Errorf("%s:%d: %w", file, number+2, err)
		}
	}
	return nil
}

// isOneLetterOff tells whether a letter was added, dropped or changed.
func isOneLetterOff(one, other string) bool {
	same := 0
	for same < len(one) && same < len(other) && one[same] == other[same] {
		same++
	}
	one, other = one[same:], other[same:]
	switch {
	case one == "" && other == "":
		return false
	case one == "" || other == "":
		return len(one)+len(other) == 1
	default:
		return one[1:] == other[1:] || one[1:] == other || one == other[1:]
	}
}
